-- What operators do to one job. `outcome` is 'ok', 'not_found' or 'conflict' (the job is in another state).

-- Makes a dead or cancelled job pending again, with all its attempts: due now, or when the lease of a handler ends
-- that had not returned.
create function tidegate.requeue(id uuid, requeued_by text) returns table (outcome text, job tidegate.jobs)
language plpgsql volatile
set lock_timeout = '5s'
as $$
#variable_conflict use_column
begin
  update tidegate.jobs as j
  set
    status = 'pending',
    attempts = 0,
    suspect = false,
    available_at = greatest(tidegate.now(), j.held_until),
    completed_at = null,
    died_at = null,
    cancelled_at = null,
    cancel_requested_at = null,
    last_error = null,
    requeues = tidegate.remember(j.requeues, jsonb_build_object(
      'at', tidegate.iso(tidegate.now()), 'by', requeue.requeued_by, 'from', j.status, 'attempts', j.attempts
    )),
    updated_at = tidegate.now()
  where j.id = requeue.id and j.status in ('dead', 'cancelled')
  returning j.* into job;

  if found then
    insert into tidegate.counter_deltas (name, type, value) values ('jobs_requeued_total', (job).type, 1);
    outcome := 'ok';
  else
    select j.* into job from tidegate.jobs as j where j.id = requeue.id;
    outcome := case when found then 'conflict' else 'not_found' end;
  end if;
  return next;
end
$$;

-- Cancels a pending job; marks a running one, whose settle then decides (see tidegate.settled_status).
create function tidegate.cancel(id uuid) returns table (outcome text, job tidegate.jobs)
language plpgsql volatile
set lock_timeout = '5s'
as $$
#variable_conflict use_column
begin
  update tidegate.jobs as j
  set
    status = case when j.status = 'pending' then 'cancelled' else j.status end,
    cancelled_at = case when j.status = 'pending' then tidegate.now() end,
    cancel_requested_at = coalesce(j.cancel_requested_at, tidegate.now()),
    updated_at = tidegate.now()
  where j.id = cancel.id and j.status in ('pending', 'running')
  returning j.* into job;

  if found then
    insert into tidegate.counter_deltas (name, type, value)
    select 'jobs_cancelled_total', (job).type, 1 where (job).status = 'cancelled';
    outcome := 'ok';
  else
    select j.* into job from tidegate.jobs as j where j.id = cancel.id;
    outcome := case when found then 'conflict' else 'not_found' end;
  end if;
  return next;
end
$$;
