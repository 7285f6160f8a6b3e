/**
 * Every version of every job's row, in the order in which each job had them, written by a trigger in the same
 * transaction; and what the role of the workers of another environment wrote anywhere, which must be nothing.
 */
export const AUDIT = `
  create table soak.audit (
    seq    bigint      not null generated always as identity primary key,
    txid   xid8        not null default pg_current_xact_id(),
    at     timestamptz not null default clock_timestamp(),
    now    timestamptz not null default tidegate.now(),
    role   text        not null default session_user,
    op     text        not null,
    id     uuid        not null,
    before tidegate.jobs,
    after  tidegate.jobs
  );

  create function soak.note() returns trigger language plpgsql as $$
  begin
    insert into soak.audit (op, id, before, after)
    values (
      tg_op,
      case when tg_op = 'DELETE' then old.id else new.id end,
      case when tg_op <> 'INSERT' then old end,
      case when tg_op <> 'DELETE' then new end
    );
    return null;
  end
  $$;

  create trigger soak_note after insert or update or delete on tidegate.jobs
  for each row execute function soak.note();

  -- Some texts are refused, as a constraint of the user's could. And now and then a row takes its time while it is
  -- locked, as on a busy disk: what can interleave, does.
  create function soak.obstruct() returns trigger language plpgsql as $$
  begin
    if new.result::text like '%unstorable%' or new.last_error like '%unstorable%' then
      raise check_violation using message = 'this text is refused';
    end if;
    if random() < 0.03 then
      perform pg_sleep(0.02);
    end if;
    return new;
  end
  $$;

  create trigger soak_obstruct before update on tidegate.jobs
  for each row execute function soak.obstruct();

  create table soak.trespasses (
    at   timestamptz not null default clock_timestamp(),
    role text        not null default session_user,
    tab  text        not null,
    op   text        not null
  );

  create function soak.trespass() returns trigger language plpgsql as $$
  begin
    insert into soak.trespasses (tab, op) values (tg_table_name, tg_op);
    return null;
  end
  $$;

  do $$
  declare
    name text;
  begin
    for name in select tablename from pg_tables where schemaname = 'tidegate' loop
      execute format(
        'create trigger soak_trespass after insert or update or delete on tidegate.%I
         for each row when (session_user = ''soak_foreign'') execute function soak.trespass()',
        name
      );
    end loop;
  end
  $$;`

/** What outlives a round: keys whose jobs must be there, and the counters and row counts that it began with. */
export const LEDGER = `
  create table soak.acknowledged (key text primary key);
  create table soak.counters_before (name text, type text, label text, value numeric);
  create table soak.jobs_before (type text, count bigint);

  -- What callers write themselves, in the transaction of their enqueue, and what handlers write.
  create table soak.orders (key text primary key);
  create table soak.effects (job uuid not null, run uuid not null);`

/** Begins a round: the state that everything after it is compared with. */
export const BEGIN_ROUND = `
  truncate soak.audit, soak.trespasses, soak.starts, soak.ends, soak.kills, soak.claims, soak.recalls, soak.verdicts, soak.ticks,
    soak.enqueues, soak.exits, soak.faults, soak.stops, soak.locks, soak.samples, soak.counters_before, soak.jobs_before, soak.orders,
    soak.effects;
  insert into soak.counters_before (name, type, label, value)
  select a.name, a.type, a.label, sum(a.value)
  from (
    select c.name, c.type, c.label, c.value from tidegate.counters as c
    union all
    select d.name, d.type, d.label, d.value from tidegate.counter_deltas as d
  ) as a
  group by a.name, a.type, a.label;
  insert into soak.jobs_before (type, count) select j.type, count(*) from tidegate.jobs as j group by j.type;`
