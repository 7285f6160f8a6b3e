-- Leases due jobs to one tick: at most `request.limit` rows and about `request.bytes` of payload (one row
-- always fits), of the types in `request.types` that are not paused, in order of priority, due time and
-- id: exact inside a type, and across types of one priority exact to within one batch.
--   request: { token, limit, bytes, lease_ms, types: [text], suspects: boolean }
--
-- With `suspects`, the rows that a crash has marked are claimed instead, oldest first.
create function tidegate.claim(request jsonb) returns table (id uuid, data jsonb, payload text)
language plpgsql volatile
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  wanted text[];
  picked uuid[];
  room   integer := (request->>'limit')::integer;
  bytes  bigint := (request->>'bytes')::bigint;
begin
  select array_agg(t.type) into wanted
  from tidegate.types as t
  where t.paused_at is null
    and t.type in (select jsonb_array_elements_text(claim.request->'types'));

  if wanted is null or room <= 0 then
    return;
  end if;

  if (request->>'suspects')::boolean then
    select array_agg(c.id) into picked
    from (
      select j.id
      from tidegate.jobs as j
      where j.status = 'pending' and j.suspect
        and j.type = any (wanted)
        and j.available_at <= tidegate.now()
      order by j.available_at, j.id
      limit room
      for no key update skip locked
    ) as c;
  else
    -- The head of each level, then a range in each. One ordered scan instead would walk every delayed row (45 ms
    -- behind a million of them).
    with heads as materialized (
      select l.type, l.priority, head.available_at
      from tidegate.levels(wanted) as l
      cross join lateral (
        select j.available_at
        from tidegate.jobs as j
        where j.status = 'pending' and not j.suspect and j.concurrency_key is null
          and j.type = l.type and j.priority = l.priority and j.available_at <= tidegate.now()
        order by j.available_at
        limit 1
      ) as head
      order by l.priority desc, head.available_at, l.type
    ),
    -- Materialized, so that the limit holds under every plan.
    locked as materialized (
      select c.id, c.priority, c.available_at, c.payload_bytes
      from heads as h
      cross join lateral (
        select j.id, j.priority, j.available_at, j.payload_bytes
        from tidegate.jobs as j
        where j.status = 'pending' and not j.suspect and j.concurrency_key is null
          and j.type = h.type and j.priority = h.priority and j.available_at <= tidegate.now()
        order by j.available_at, j.id
        limit room
        for no key update skip locked
      ) as c
      limit room
    )
    select array_agg(w.id) into picked
    from (
      select
        l.id,
        sum(l.payload_bytes) over (order by l.priority desc, l.available_at, l.id) - l.payload_bytes as before
      from locked as l
    ) as w
    where w.before < bytes;
  end if;

  if picked is null then
    return;
  end if;

  return query
    with claimed as (
      update tidegate.jobs as j
      set
        status = 'running',
        attempts = j.attempts + 1,
        lease_token = (request->>'token')::uuid,
        lease_until = tidegate.now() + (request->>'lease_ms')::bigint * interval '1 millisecond',
        started_at = tidegate.now(),
        updated_at = tidegate.now()
      where j.id = any (picked)
      returning j.*
    ),
    waits as (
      select c.type, greatest(0, round(extract(epoch from c.started_at - c.available_at) * 1000000))::bigint as us
      from claimed as c
    ),
    counted as (
      insert into tidegate.counter_deltas (name, type, label, value)
      select 'job_start_latency_us', w.type, 'sum', sum(w.us) from waits as w group by w.type
      union all
      select 'job_start_latency_us', w.type, tidegate.duration_bucket(w.us), count(*)
      from waits as w
      group by w.type, tidegate.duration_bucket(w.us)
    )
    select c.id, tidegate.leased(c), c.payload::text
    from claimed as c
    order by c.priority desc, c.available_at, c.id;
end
$$;

-- The priority levels of each type that has pending jobs, by a loose scan of jobs_due: two steps down the index a
-- level, however many rows there are.
create function tidegate.levels(types text[]) returns table (type text, priority smallint)
language sql stable
as $$
  with recursive found (type, priority) as (
    select w.type, first.priority
    from unnest(levels.types) as w (type)
    cross join lateral (
      select j.priority
      from tidegate.jobs as j
      where j.status = 'pending' and not j.suspect and j.concurrency_key is null and j.type = w.type
      order by j.priority desc
      limit 1
    ) as first
    union all
    select f.type, lower.priority
    from found as f
    cross join lateral (
      select j.priority
      from tidegate.jobs as j
      where j.status = 'pending' and not j.suspect and j.concurrency_key is null
        and j.type = f.type and j.priority < f.priority
      order by j.priority desc
      limit 1
    ) as lower
  )
  select f.type, f.priority from found as f
$$;

-- What a tick needs to know of a job that it holds, beside its payload.
create function tidegate.leased(j tidegate.jobs) returns jsonb
language sql stable parallel safe
return jsonb_build_object(
  'type', j.type,
  'attempt', j.attempts,
  'max_attempts', j.max_attempts,
  'token', j.lease_token,
  'suspect', j.suspect,
  'traceparent', j.traceparent,
  'waited_ms', round(extract(epoch from j.started_at - j.available_at) * 1000)
);
