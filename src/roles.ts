/**
 * SQL that creates three roles without login, or brings their rights up to date; to be granted to the users that
 * connect. Safe to repeat, and to be repeated after a migration.
 *
 * - `tidegate_producer` may call `tidegate.enqueue` and nothing else: for functions that enqueue in SQL.
 * - `tidegate_worker` may do what the API and the tick do: for DATABASE_URL.
 * - `tidegate_operator` may read everything, pause, requeue, cancel and adopt: for people.
 */
export const ROLES_SQL = `
do $$
declare
  name text;
begin
  foreach name in array array['tidegate_producer', 'tidegate_worker', 'tidegate_operator'] loop
    if not exists (select from pg_catalog.pg_roles as r where r.rolname = name) then
      execute pg_catalog.format('create role %I nologin', name);
    end if;
  end loop;
end
$$;

revoke all on schema tidegate from public;
revoke execute on all functions in schema tidegate from public;

grant usage on schema tidegate to tidegate_producer, tidegate_worker, tidegate_operator;

grant execute on function
  tidegate.enqueue(text, json, text, integer, bigint, timestamptz, integer, text, boolean),
  tidegate.iso(timestamptz)
  to tidegate_producer;

grant execute on all functions in schema tidegate to tidegate_worker, tidegate_operator;
grant select, insert, update, delete on all tables in schema tidegate to tidegate_worker;
grant select on all tables in schema tidegate to tidegate_operator;
grant update on tidegate.jobs, tidegate.meta, tidegate.types to tidegate_operator;
grant insert on tidegate.counter_deltas to tidegate_operator;

revoke insert, update, delete on tidegate.migrations from tidegate_worker;
`
