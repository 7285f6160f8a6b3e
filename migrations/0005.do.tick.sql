-- The three calls of a tick. Each is one statement on the wire and one transaction, and each answers rows
-- of (kind, id, data, payload):
--   meta     data { matches, environment, branch_id, recorded_environment, recorded_branch_id, paused, now }
--   verdict  id of a settled job, data { verdict, status }
--   job      id of a job that this call leased, data as tidegate.leased, payload
--   abort    id of a held job whose lease is gone or which was asked to cancel, data { reason }
--   expired  id of a job whose lease has ended, data as tidegate.leased
--   suspect  the type of the oldest suspect that is due, data { type }
--   pruned   data { pruned }: finished jobs deleted for their age
--   next     data { due_at, due }: when the next job of these types falls due
--   metric   data { name, type, label, value }
--   push     data { sequence }: this tick may push, under that number
--   kick     data { taken } of a step, { again } of the last call; see tidegate.take_kick

-- Whose database is this? A copy (another recorded environment, another Neon branch) runs nothing (G11).
create function tidegate.whose(environment text) returns table (kind text, id uuid, data jsonb, payload text)
language sql volatile
as $$
  select
    'meta',
    null::uuid,
    jsonb_build_object(
      'matches', m.environment = whose.environment
        and m.branch_id is not distinct from current_setting('neon.branch_id', true),
      'environment', whose.environment,
      'branch_id', current_setting('neon.branch_id', true),
      'recorded_environment', m.environment,
      'recorded_branch_id', m.branch_id,
      'paused', m.paused_at is not null,
      'now', tidegate.iso(clock_timestamp())
    ),
    null
  from tidegate.meta as m
$$;

-- Leases that have ended, oldest first, with their tokens: whoever reads them settles them as crashed. A row that
-- somebody has locked is left out: its settle would wait for that lock, and with it every other of the call.
create function tidegate.expired(up_to integer) returns table (kind text, id uuid, data jsonb, payload text)
language sql volatile
as $$
  select 'expired', j.id, tidegate.leased(j), null
  from tidegate.jobs as j
  where j.status = 'running' and j.lease_until <= tidegate.now()
  order by j.lease_until, j.id
  limit up_to
  for no key update skip locked
$$;

-- The oldest due suspect among these types, for the tick keeps time for it.
create function tidegate.due_suspect(types jsonb) returns table (kind text, id uuid, data jsonb, payload text)
language sql volatile
as $$
  select 'suspect', j.id, jsonb_build_object('type', j.type), null
  from tidegate.jobs as j
  join tidegate.types as t on t.type = j.type
  where j.status = 'pending' and j.suspect
    and j.available_at <= tidegate.now()
    and t.paused_at is null
    and j.type in (select jsonb_array_elements_text(due_suspect.types))
  order by j.available_at, j.id
  limit 1
$$;

-- Records the types that a root can run. Writes only what differs.
create function tidegate.register(types jsonb) returns void
language sql volatile
as $$
  insert into tidegate.types as t (type, timeout_ms, max_attempts, registered_at, changed_at)
  select r.type, r.timeout_ms, r.max_attempts, tidegate.now(), tidegate.now()
  from jsonb_to_recordset(register.types) as r (type text, timeout_ms integer, max_attempts smallint)
  where not exists (
    select from tidegate.types as k
    where k.type = r.type and k.timeout_ms = r.timeout_ms and k.max_attempts = r.max_attempts
  )
  order by r.type
  on conflict (type) do update
  set timeout_ms = excluded.timeout_ms, max_attempts = excluded.max_attempts, changed_at = excluded.changed_at
$$;

-- One step of a tick: settle what has finished, then lease into the free slots.
--   request: { environment, tick, register?: [{ type, timeout_ms, max_attempts }], types: [text],
--     settle?: […], claim?: …, recover?: token, held?: [{ id, token }], expired?: integer,
--     kick?: { token, lease_ms } }
-- `recover` repeats a call whose answer was lost: it leases nothing new and returns the rows that carry
-- that token. A claim leases nothing while a suspect of one of its `yield_to` types is due, for what it would
-- lease could take the time that the suspect needs. Job rows are locked by id first, pending rows are skipped when locked.
create function tidegate.work(request jsonb) returns table (kind text, id uuid, data jsonb, payload text)
language plpgsql volatile
set plan_cache_mode = force_custom_plan
-- Estimates here are far too high, and compiling a query for a few rows takes longer than running it.
set jit = off
as $$
#variable_conflict use_column
declare
  meta   jsonb;
  yields boolean := false;
begin
  select w.data into meta from tidegate.whose(request->>'environment') as w;
  kind := 'meta';
  data := meta;
  return next;
  if (meta->>'matches')::boolean is not true then
    return;
  end if;

  if request ? 'kick' then
    kind := 'kick';
    data := jsonb_build_object('taken',
      tidegate.take_kick((request#>>'{kick,token}')::uuid, (request#>>'{kick,lease_ms}')::bigint));
    return next;
    if (data->>'taken')::boolean is not true then
      return;
    end if;
  end if;

  if request ? 'register' then
    perform tidegate.register(request->'register');
  end if;

  if jsonb_array_length(request->'settle') > 0 then
    return query
      select 'verdict', v.id, jsonb_build_object('verdict', v.verdict, 'status', v.status), null::text
      from tidegate.settle(request->'settle', (request->>'tick')::uuid) as v;
  end if;

  if request ? 'recover' then
    return query
      select 'job', j.id, tidegate.leased(j), j.payload::text
      from tidegate.jobs as j
      where j.status = 'running' and j.lease_until is not null and j.lease_token = (request->>'recover')::uuid
      order by j.priority desc, j.available_at, j.id;
  end if;

  if jsonb_array_length(request#>'{claim,yield_to}') > 0 then
    select request#>'{claim,yield_to}' ? (d.data->>'type') into yields
    from tidegate.due_suspect(request->'types') as d;
  end if;

  if request ? 'claim' and yields is not true and not (meta->>'paused')::boolean then
    return query
      select 'job', c.id, c.data, c.payload from tidegate.claim(request->'claim') as c;
  end if;

  if jsonb_array_length(request->'held') > 0 then
    return query
      select
        'abort',
        h.id,
        jsonb_build_object('reason', case when j.lease_token = h.token and j.lease_until is not null then 'cancelled' else 'lost' end),
        null::text
      from jsonb_to_recordset(request->'held') as h (id uuid, token uuid)
      left join tidegate.jobs as j on j.id = h.id
      where j.lease_token is distinct from h.token
        or j.lease_until is null
        or j.cancel_requested_at is not null;
  end if;

  if (request->>'expired')::integer > 0 then
    return query select * from tidegate.expired((request->>'expired')::integer);
  end if;

  return query select * from tidegate.due_suspect(request->'types');
end
$$;

-- The last step of a tick: settle, prune, fold, record the tick, say what is due next, and hand out the
-- metrics with the right to push them.
--   request: { environment, tick, types, settle?, retain: { completed_s, cancelled_s, dead_s }, prune,
--     fold, record?: { stopped, started_ms_ago, report }, push_lease_ms?: integer, kick?: token }
create function tidegate.close(request jsonb) returns table (kind text, id uuid, data jsonb, payload text)
language plpgsql volatile
set plan_cache_mode = force_custom_plan
-- Estimates here are far too high, and compiling a query for a few rows takes longer than running it.
set jit = off
as $$
#variable_conflict use_column
declare
  meta   jsonb;
  number bigint;
begin
  select w.data into meta from tidegate.whose(request->>'environment') as w;
  kind := 'meta';
  data := meta;
  return next;
  if (meta->>'matches')::boolean is not true then
    return;
  end if;

  if jsonb_array_length(request->'settle') > 0 then
    return query
      select 'verdict', v.id, jsonb_build_object('verdict', v.verdict, 'status', v.status), null::text
      from tidegate.settle(request->'settle', (request->>'tick')::uuid) as v;
  end if;

  kind := 'pruned';
  data := tidegate.prune(request->'retain', (request->>'prune')::integer);
  return next;

  perform tidegate.fold((request->>'fold')::integer);

  if request ? 'record' then
    perform tidegate.record_tick((request->>'tick')::uuid, request->'record');
  end if;

  kind := 'next';
  data := jsonb_build_object('due_at', tidegate.iso(tidegate.next_due(request->'types')),
    'due', tidegate.next_due(request->'types') <= tidegate.now());
  return next;

  if request ? 'kick' then
    kind := 'kick';
    data := jsonb_build_object('again', tidegate.end_kick((request->>'kick')::uuid));
    return next;
  end if;

  if request ? 'push_lease_ms' then
    update tidegate.push as p
    set sequence = p.sequence + 1,
        lease_until = tidegate.now() + (request->>'push_lease_ms')::bigint * interval '1 millisecond',
        last_error = null
    where p.lease_until is null or p.lease_until <= tidegate.now()
    returning p.sequence into number;
    if number is not null then
      kind := 'push';
      data := jsonb_build_object('sequence', number);
      return next;
      return query select * from tidegate.metrics();
    end if;
  end if;
end
$$;

-- A kick is a small tick right after an enqueue, one at a time in a database. Takes the right to be it, or
-- leaves word for the one under way: the row's lock orders that word before or after its end.
create function tidegate.take_kick(token uuid, lease_ms bigint) returns boolean
language plpgsql volatile
set lock_timeout = '2s'
as $$
#variable_conflict use_column
begin
  update tidegate.kick as k
  set token = take_kick.token,
      lease_until = tidegate.now() + take_kick.lease_ms * interval '1 millisecond',
      wanted = false
  where k.lease_until is null or k.lease_until <= tidegate.now() or k.token = take_kick.token;
  if found then
    return true;
  end if;
  update tidegate.kick as k set wanted = true where not k.wanted;
  return false;
end
$$;

-- Ends a kick, unless an enqueue has left word since it began: then it must look again.
create function tidegate.end_kick(token uuid) returns boolean
language plpgsql volatile
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  again boolean;
begin
  select k.wanted into again from tidegate.kick as k where k.token = end_kick.token for no key update;
  if not again then
    update tidegate.kick as k set token = null, lease_until = null where k.token = end_kick.token;
  end if;
  return coalesce(again, false);
end
$$;
