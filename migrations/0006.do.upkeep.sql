-- Upkeep: bounded steps of a tick's last call.

-- Deletes finished jobs beyond their retention, at most `up_to` of each status, oldest first.
--   retain: { completed_s, cancelled_s, dead_s }, in seconds; null keeps them for ever
create function tidegate.prune(retain jsonb, up_to integer) returns jsonb
language plpgsql volatile
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  completed integer;
  cancelled integer;
  dead      integer;
begin
  with old as materialized (
    select j.id from tidegate.jobs as j
    where j.status = 'completed'
      and j.completed_at < tidegate.now() - (retain->>'completed_s')::bigint * interval '1 second'
    order by j.completed_at
    limit up_to
    for update skip locked
  )
  delete from tidegate.jobs as j where j.id = any (array(select o.id from old as o));
  get diagnostics completed = row_count;

  with old as materialized (
    select j.id from tidegate.jobs as j
    where j.status = 'cancelled'
      and j.cancelled_at < tidegate.now() - (retain->>'cancelled_s')::bigint * interval '1 second'
    order by j.cancelled_at
    limit up_to
    for update skip locked
  )
  delete from tidegate.jobs as j where j.id = any (array(select o.id from old as o));
  get diagnostics cancelled = row_count;

  with old as materialized (
    select j.id from tidegate.jobs as j
    where j.status = 'dead'
      and j.died_at < tidegate.now() - (retain->>'dead_s')::bigint * interval '1 second'
    order by j.died_at
    limit up_to
    for update skip locked
  )
  delete from tidegate.jobs as j where j.id = any (array(select o.id from old as o));
  get diagnostics dead = row_count;

  insert into tidegate.counter_deltas (name, label, value)
  select 'jobs_pruned_total', p.label, p.value
  from (values ('completed', completed), ('cancelled', cancelled), ('dead', dead)) as p (label, value)
  where p.value > 0;

  return jsonb_build_object('pruned', completed + cancelled + dead);
end
$$;

-- Adds at most `up_to` unfolded changes to the totals, in the order of their keys. Two ticks at once fold
-- different changes.
create function tidegate.fold(up_to integer) returns void
language sql volatile
as $$
  with taken as materialized (
    select d.ctid from tidegate.counter_deltas as d limit up_to for update skip locked
  ),
  folded as (
    delete from tidegate.counter_deltas as d
    where d.ctid = any (array(select t.ctid from taken as t))
    returning d.name, d.type, d.label, d.value
  )
  insert into tidegate.counters as c (name, type, label, value)
  select f.name, f.type, f.label, sum(f.value)
  from folded as f
  group by f.name, f.type, f.label
  order by f.name, f.type, f.label
  on conflict (name, type, label) do update set value = c.value + excluded.value
$$;

-- Remembers and counts a tick, once however often the call is repeated, and forgets those of yesterday.
--   record: { stopped, duration_ms, report }
create function tidegate.record_tick(tick uuid, record jsonb) returns void
language sql volatile
as $$
  with forgotten as (
    delete from tidegate.ticks as t
    where t.id in (
      select o.id from tidegate.ticks as o
      where o.ended_at < tidegate.now() - interval '1 day'
      order by o.ended_at
      limit 100
      for update skip locked
    )
  ),
  remembered as (
    insert into tidegate.ticks (id, started_at, ended_at, stopped, report)
    values (
      record_tick.tick,
      tidegate.now() - (record_tick.record->>'duration_ms')::bigint * interval '1 millisecond',
      tidegate.now(),
      record_tick.record->>'stopped',
      record_tick.record->'report'
    )
    on conflict (id) do nothing
    returning stopped, (record_tick.record->>'duration_ms')::bigint * 1000 as us
  )
  insert into tidegate.counter_deltas (name, label, value)
  select c.name, c.label, c.value
  from remembered as r
  cross join lateral (values
    ('ticks_total', r.stopped, 1),
    ('tick_duration_us', 'sum', r.us),
    ('tick_duration_us', tidegate.duration_bucket(r.us), 1)
  ) as c (name, label, value)
$$;

-- When the next job of these types falls due, paused types left out; null when none is waiting.
create function tidegate.next_due(types jsonb) returns timestamptz
language plpgsql volatile
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  ordinary timestamptz;
  suspects timestamptz;
begin
  select min(head.available_at) into ordinary
  from tidegate.levels(array(
    select t.type
    from tidegate.types as t
    where t.paused_at is null and t.type in (select jsonb_array_elements_text(next_due.types))
  )) as l
  cross join lateral (
    select j.available_at
    from tidegate.jobs as j
    where j.status = 'pending' and not j.suspect and j.concurrency_key is null
      and j.type = l.type and j.priority = l.priority
    order by j.available_at
    limit 1
  ) as head;

  select j.available_at into suspects
  from tidegate.jobs as j
  join tidegate.types as t on t.type = j.type
  where j.status = 'pending' and j.suspect and t.paused_at is null
    and j.type in (select jsonb_array_elements_text(next_due.types))
  order by j.available_at
  limit 1;

  return least(ordinary, suspects);
end
$$;

-- Everything that /metrics shows, in one snapshot: counters are totals plus what is not folded yet. The gauges
-- read indexes of what is not finished or dead, and count at most 100 000 rows of a type.
create function tidegate.metrics() returns table (kind text, id uuid, data jsonb, payload text)
language sql volatile
-- The planner takes these few rows for very many and would compile the query: 200 ms and more on PostgreSQL 15.
set jit = off
as $$
  with gauges (name, type, value) as (
    select 'jobs_in_flight', '', count(*)::numeric
    from tidegate.jobs as j
    where j.status = 'running' and j.lease_until > tidegate.now()
    union all
    select 'jobs_expired_leases', '', count(*)
    from tidegate.jobs as j
    where j.status = 'running' and j.lease_until <= tidegate.now()
    union all
    select 'jobs_pending', t.type, counted.n + suspects.n
    from tidegate.types as t
    cross join lateral (
      select count(*) as n
      from (
        select from tidegate.jobs as j
        where j.status = 'pending' and not j.suspect and j.concurrency_key is null and j.type = t.type
        limit 100000
      ) as capped
    ) as counted
    cross join lateral (
      select count(*) as n
      from (
        select from tidegate.jobs as j
        where j.status = 'pending' and j.suspect and j.type = t.type
        limit 100000
      ) as capped
    ) as suspects
    union all
    select 'jobs_dead', capped.type, count(*)
    from (select j.type from tidegate.jobs as j where j.status = 'dead' order by j.died_at desc limit 100000) as capped
    group by capped.type
    union all
    select 'job_oldest_due_age_seconds', t.type,
      coalesce(max(round(extract(epoch from tidegate.now() - head.available_at), 3)), 0)
    from tidegate.types as t
    left join tidegate.levels(array(select k.type from tidegate.types as k)) as l on l.type = t.type
    left join lateral (
      select j.available_at
      from tidegate.jobs as j
      where j.status = 'pending' and not j.suspect and j.concurrency_key is null
        and j.type = l.type and j.priority = l.priority and j.available_at <= tidegate.now()
      order by j.available_at
      limit 1
    ) as head on true
    group by t.type
    union all
    select 'tick_last_success_timestamp_seconds', '', round(extract(epoch from last.ended_at), 3)
    from (select k.ended_at from tidegate.ticks as k order by k.ended_at desc limit 1) as last
  )
  select
    'metric', null::uuid,
    jsonb_build_object('name', a.name, 'type', a.type, 'label', a.label, 'value', sum(a.value)),
    null::text
  from (
    select c.name, c.type, c.label, c.value from tidegate.counters as c
    union all
    select d.name, d.type, d.label, d.value from tidegate.counter_deltas as d
  ) as a
  group by a.name, a.type, a.label
  union all
  select
    'metric', null,
    jsonb_build_object('name', g.name, 'type', g.type, 'label', '', 'value', g.value),
    null
  from gauges as g
$$;

-- Remembers how the push of `sequence` went (null: it went well). A push that went well ends its right to push.
-- One that failed keeps it until its lease ends: the network may still hold what was sent, and a later
-- snapshot must not overtake it.
create function tidegate.pushed(sequence bigint, error text) returns void
language sql volatile
as $$
  with told as (
    update tidegate.push as p
    set
      lease_until = case when pushed.error is not null then p.lease_until end,
      pushed_at = case when pushed.error is null then tidegate.now() else p.pushed_at end,
      failed_at = case when pushed.error is null then p.failed_at else tidegate.now() end,
      last_error = pushed.error
    where p.sequence = pushed.sequence and p.lease_until is not null and p.last_error is null
    returning p.last_error
  )
  insert into tidegate.counter_deltas (name, value)
  select 'metrics_push_failures_total', 1 from told as t where t.last_error is not null
$$;
