-- Adds one job, or finds the one that already has its idempotency key.
--
-- `outcome` is 'created'; 'replayed' (the key is taken by the same type and payload, the stored job is
-- returned); 'reused' (it is taken by another type or payload); or 'unknown_type' (only with
-- `known => false`: no root has registered the type; nothing is stored).
--
-- A function, because a single statement never sees the row that it waited for: insert, else look again.
-- Raises 55P03 when the key is held by an open transaction for longer than two seconds.
create function tidegate.enqueue(
  type            text,
  payload         json,
  idempotency_key text,
  priority        integer     default 0,
  delay_ms        bigint      default 0,
  available_at    timestamptz default null,
  max_attempts    integer     default null,
  traceparent     text        default null,
  known           boolean     default true
) returns table (outcome text, job tidegate.jobs)
language plpgsql volatile
-- A producer may call it and touch nothing else; every name in it is qualified.
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  stored tidegate.jobs;
begin
  if not enqueue.known and not exists (select from tidegate.types t where t.type = enqueue.type) then
    outcome := 'unknown_type';
    return next;
    return;
  end if;

  loop
    insert into tidegate.jobs as j
      (type, payload, idempotency_key, priority, max_attempts, traceparent, available_at, created_at, updated_at)
    values (
      enqueue.type,
      enqueue.payload,
      enqueue.idempotency_key,
      coalesce(enqueue.priority, 0),
      coalesce(
        nullif(enqueue.max_attempts, 0),
        (select t.max_attempts from tidegate.types t where t.type = enqueue.type),
        5
      ),
      enqueue.traceparent,
      coalesce(
        enqueue.available_at,
        tidegate.now() + coalesce(enqueue.delay_ms, 0) * interval '1 millisecond'
      ),
      tidegate.now(),
      tidegate.now()
    )
    on conflict (idempotency_key) do nothing
    returning j.* into stored;

    if found then
      insert into tidegate.counter_deltas (name, type, value) values ('jobs_enqueued_total', stored.type, 1);
      outcome := 'created';
      job := stored;
      return next;
      return;
    end if;

    select j.* into stored from tidegate.jobs j where j.idempotency_key = enqueue.idempotency_key;

    if found then
      outcome := case
        when stored.type = enqueue.type and tidegate.same_json(stored.payload, enqueue.payload) then 'replayed'
        else 'reused'
      end;
      job := stored;
      return next;
      return;
    end if;
    -- The row was pruned between the two statements, so the key is free again.
  end loop;
end
$$;

-- Equality of JSON values, whatever the order of keys and the white space.
create function tidegate.same_json(a json, b json) returns boolean
language plpgsql immutable
as $$
begin
  return a::text = b::text or a::jsonb = b::jsonb;
exception
  -- jsonb cannot hold every json text (\u0000, huge numbers): what cannot be compared is not the same.
  when data_exception or program_limit_exceeded then
    return false;
end
$$;
