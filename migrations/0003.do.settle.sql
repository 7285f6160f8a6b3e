-- The status in which a settlement leaves its job. A success is always a success: the effect happened. The
-- cancel mark beats retry, snooze, release and everything that recovers a crash.
create function tidegate.settled_status(kind text, crashed boolean, marked boolean) returns text
language sql immutable parallel safe
return case
  when kind = 'complete' then 'completed'
  when marked and (kind <> 'dead' or crashed) then 'cancelled'
  when kind = 'dead' then 'dead'
  else 'pending'
end;

-- Ends leases. `settlements` is a JSON array of
--   { id, token, kind: complete | retry | dead | snooze | release, delay_ms, held, crashed, outcome,
--     error, code, result, duration_us, follow_ups: [{ type, payload, priority, delay_ms, max_attempts }] }
-- (`result` and `payload` are strings that hold JSON, for jsonb would change what was sent)
-- and every one gets a verdict: 'settled'; 'already' (this lease was settled before); 'lost' (the job has
-- another lease by now, or is gone), which changes nothing; `status` is the job's, now. `held` keeps a retry, and a later
-- requeue, from being due before the lease ends, for a handler that has not returned. `crashed` settles an expired lease by its token
-- and hands that lease to `tick`, so that the late settle of whoever lost it finds another token.
-- A settlement that the database refuses – its text, or what is wrong with the row – is made without detail; if that
-- is refused too, its verdict is 'refused' and its lease stays. The others of the call never notice (G10).
--
-- Locks job rows in the order of their ids: settles of the same rows in other orders would deadlock.
create function tidegate.settle(settlements jsonb, tick uuid) returns table (id uuid, verdict text, status text)
language plpgsql volatile
set lock_timeout = '5s'
as $$
#variable_conflict use_column
declare
  one jsonb;
begin
  begin
    return query select a.id, a.verdict, a.status from tidegate.settle_all(settlements, tick) as a;
    return;
  exception
    -- These pass by themselves: the caller repeats the call.
    when transaction_rollback or lock_not_available or insufficient_resources or operator_intervention then raise;
    when others then null;
  end;

  for one in select s.value from jsonb_array_elements(settlements) as s (value) order by (s.value->>'id')::uuid
  loop
    begin
      return query select a.id, a.verdict, a.status from tidegate.settle_all(jsonb_build_array(one), tick) as a;
    exception
      when transaction_rollback or lock_not_available or insufficient_resources or operator_intervention then raise;
      when others then
        begin
          return query
            select a.id, a.verdict, a.status
            from tidegate.settle_all(jsonb_build_array(tidegate.without_detail(one)), tick) as a;
        exception
          when transaction_rollback or lock_not_available or insufficient_resources or operator_intervention then raise;
          when others then
            id := (one->>'id')::uuid;
            verdict := 'refused';
            status := null;
            return next;
        end;
    end;
  end loop;
end
$$;

-- A settlement with nothing in it that could be refused. A completion keeps its follow-ups, for they were checked when
-- they were collected, and completing without them would lose work.
create function tidegate.without_detail(settlement jsonb) returns jsonb
language sql immutable parallel safe
return case
  when settlement ? 'error' then settlement || '{"error": "the database refused the text of this error"}'
  else settlement - 'result'
end - 'outcome';

-- Settles all of them, or none when one is refused.
create function tidegate.settle_all(settlements jsonb, tick uuid) returns table (id uuid, verdict text, status text)
language plpgsql volatile
set plan_cache_mode = force_custom_plan
set lock_timeout = '5s'
-- Rows are found by primary key whatever the statistics say; a hash join would lock them in heap order.
set enable_hashjoin = off
set enable_mergejoin = off
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  done uuid[];
begin
  with sent as materialized (
    select s.*
    from jsonb_to_recordset(settle_all.settlements) as s (
      id uuid, token uuid, kind text, delay_ms bigint, held boolean, crashed boolean, outcome text,
      error text, code text, result text, duration_us bigint, follow_ups jsonb
    )
    order by s.id
  ),
  settled as (
    update tidegate.jobs as j
    set
      status = tidegate.settled_status(s.kind, s.crashed is true, j.cancel_requested_at is not null),
      attempts = j.attempts - (s.kind in ('snooze', 'release'))::integer,
      refunds = j.refunds + (s.kind in ('snooze', 'release'))::integer,
      available_at = case
        when s.kind not in ('retry', 'snooze') then j.available_at
        when s.held then greatest(tidegate.now() + s.delay_ms * interval '1 millisecond', j.lease_until)
        else tidegate.now() + s.delay_ms * interval '1 millisecond'
      end,
      suspect = s.crashed is true or (s.kind = 'release' and j.suspect),
      held_until = case when s.held then j.lease_until else j.held_until end,
      lease_until = null,
      lease_token = case when s.crashed then settle_all.tick else j.lease_token end,
      completed_at = case when s.kind = 'complete' then tidegate.now() end,
      died_at = case
        when tidegate.settled_status(s.kind, s.crashed is true, j.cancel_requested_at is not null) = 'dead'
        then tidegate.now()
      end,
      cancelled_at = case
        when tidegate.settled_status(s.kind, s.crashed is true, j.cancel_requested_at is not null) = 'cancelled'
        then tidegate.now()
      end,
      last_error = coalesce(s.error, j.last_error),
      result = s.result::json,
      history = case
        when s.outcome is null then j.history
        else tidegate.remember(j.history, jsonb_strip_nulls(jsonb_build_object(
          'attempt', j.attempts,
          'outcome', s.outcome,
          'started_at', tidegate.iso(j.started_at),
          'ended_at', tidegate.iso(tidegate.now()),
          'error', left(s.error, 1000),
          'code', s.code,
          'tick', settle_all.tick
        )))
      end,
      updated_at = tidegate.now()
    from sent as s
    where j.id = s.id
      and j.lease_token = s.token
      -- Means status = 'running', in a form that cannot drive the plan from the index of leases.
      and j.status in ('running', '')
    returning j.id, j.type, j.status, s.kind, s.crashed is true as crashed, s.duration_us, s.follow_ups
  ),
  followed as (
    insert into tidegate.jobs as f
      (type, payload, idempotency_key, priority, max_attempts, available_at, created_at, updated_at)
    select
      n.type,
      n.payload::json,
      r.id || ':' || n.ordinality,
      coalesce(n.priority, 0),
      coalesce(n.max_attempts, t.max_attempts, 5),
      tidegate.now() + coalesce(n.delay_ms, 0) * interval '1 millisecond',
      tidegate.now(),
      tidegate.now()
    from settled as r
    cross join lateral rows from (
      jsonb_to_recordset(r.follow_ups) as (type text, payload text, priority integer, delay_ms bigint, max_attempts integer)
    ) with ordinality as n
    left join tidegate.types as t on t.type = n.type
    where r.status = 'completed' and r.follow_ups is not null
    order by r.id, n.ordinality
    on conflict (idempotency_key) do nothing
    returning f.type
  ),
  tallies as (
    select
      r.type,
      count(*) filter (where r.kind = 'complete') as completed,
      count(*) filter (where r.kind in ('retry', 'dead')) as failed,
      count(*) filter (where r.kind = 'release') as released,
      count(*) filter (where r.kind = 'snooze') as snoozed,
      count(*) filter (where r.status = 'dead') as died,
      count(*) filter (where r.status = 'cancelled') as cancelled,
      count(*) filter (where r.crashed) as reaped,
      sum(r.duration_us) filter (where not r.crashed) as duration_us
    from settled as r
    group by r.type
  ),
  counted as (
    insert into tidegate.counter_deltas (name, type, label, value)
    select c.name, y.type, c.label, c.value
    from tallies as y
    cross join lateral (values
      ('jobs_processed_total', 'completed', y.completed),
      ('jobs_processed_total', 'failed', y.failed),
      ('jobs_released_total', '', y.released),
      ('jobs_snoozed_total', '', y.snoozed),
      ('jobs_died_total', '', y.died),
      ('jobs_cancelled_total', '', y.cancelled),
      ('jobs_reaped_total', '', y.reaped),
      ('job_processing_duration_us', 'sum', y.duration_us)
    ) as c (name, label, value)
    where c.value > 0
    union all
    select 'job_processing_duration_us', r.type, tidegate.duration_bucket(r.duration_us), count(*)
    from settled as r
    where r.duration_us is not null and not r.crashed
    group by r.type, tidegate.duration_bucket(r.duration_us)
    union all
    select 'jobs_enqueued_total', f.type, '', count(*)
    from followed as f
    group by f.type
  )
  select array_agg(r.id) into done from settled as r;

  -- A second statement sees what was committed while the first one waited.
  return query
    with verdicts as (
      select
        s.id,
        case
          when s.id = any (done) then 'settled'
          -- A recovery was ours only if the lease is: its owner may have settled it late, under the same token.
          when j.lease_token = case when s.crashed then settle_all.tick else s.token end then 'already'
          else 'lost'
        end as verdict,
        j.status,
        s.crashed is true as crashed
      from jsonb_to_recordset(settle_all.settlements) as s (id uuid, token uuid, crashed boolean)
      left join tidegate.jobs as j on j.id = s.id
    ),
    counted as (
      insert into tidegate.counter_deltas (name, value)
      select 'jobs_lease_lost_total', count(*)
      from verdicts as v
      where v.verdict = 'lost' and not v.crashed
      having count(*) > 0
    )
    select v.id, v.verdict, v.status from verdicts as v;
end
$$;

-- The history of a job keeps its last twenty runs that did not succeed.
create function tidegate.remember(history jsonb, entry jsonb) returns jsonb
language sql immutable parallel safe
return case
  when jsonb_array_length(history) >= 20 then (history - 0) || jsonb_build_array(entry)
  else coalesce(history, '[]'::jsonb) || jsonb_build_array(entry)
end;

-- The upper bound of the histogram bucket that a duration falls into, as Prometheus writes it.
create function tidegate.duration_bucket(duration_us bigint) returns text
language sql immutable parallel safe
return (array['0.1', '0.25', '0.5', '1', '2.5', '5', '10', '30', '60', '120', '300', '+Inf'])[
  1 + width_bucket(
    duration_us - 1,
    array[100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000, 30000000, 60000000, 120000000, 300000000]::bigint[]
  )
];
