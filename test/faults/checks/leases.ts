import type { Check } from './check.ts'

/** One lease at a time, ended once, by its holder or after its end; and every end is found. */
export const LEASE_CHECKS: readonly Check[] = [
  {
    guarantee: 'G5',
    says: 'every transition is one of the state table, and a mark leaves the lease alone',
    sql: `
      select
        s.verb <> 'forbidden'
          and (s.verb <> 'mark'
            or ((s.after).lease_token = (s.before).lease_token and (s.after).lease_until = (s.before).lease_until)) as ok,
        json_build_object('job', s.id, 'verb', s.verb, 'was', s.was, 'became', s.became) as detail
      from soak.steps as s`,
  },
  {
    guarantee: 'G5',
    says: 'the leases of a job do not overlap: each has ended before the next begins, and none is recovered early',
    sql: `
      select
        (l.next_seq is null or (l.end_seq < l.next_seq and l.end_at <= l.next_at))
          and (l.end_verb is distinct from 'reap' or l.lease_until <= l.end_at) as ok,
        json_build_object('job', l.id, 'token', l.token, 'until', l.lease_until, 'end', l.end_verb, 'end_at', l.end_at) as detail
      from (
        select
          l.*,
          lead(l.seq) over (partition by l.id order by l.seq) as next_seq,
          lead(l.claimed_at) over (partition by l.id order by l.seq) as next_at
        from soak.leases as l
      ) as l`,
  },
  {
    guarantee: 'G5',
    says: 'a handler is entered only after the one before it has returned or its lease has ended',
    sql: `
      select
        r.end_before <= r.start_at + interval '50 milliseconds'
          or r.until_before <= r.start_at + interval '50 milliseconds' as ok,
        json_build_object('job', r.job, 'run', r.run, 'start_at', r.start_at, 'run_before', r.run_before,
          'until_before', r.until_before, 'behaviour_before', r.behaviour_before, 'same_life', r.life = r.life_before) as detail
      from (
        select
          r.*,
          lag(r.run) over w as run_before,
          lag(r.end_at) over w as end_before,
          lag(r.lease_until) over w as until_before,
          lag(r.behaviour) over w as behaviour_before,
          lag(r.life) over w as life_before
        from soak.runs as r
        where r.seq is not null
        window w as (partition by r.job order by r.seq)
      ) as r
      where r.run_before is not null`,
  },
  {
    guarantee: 'G5',
    says: 'no handler is entered after its own lease has ended, unless the process was stopped at that moment',
    sql: `
      select
        r.start_at <= r.lease_until + interval '50 milliseconds'
          or exists (
            select from soak.stops as s
            where s.worker = r.worker and r.start_at between s.began_at and s.ended_at + interval '1 second'
          ) as ok,
        json_build_object('job', r.job, 'run', r.run, 'start_at', r.start_at, 'until', r.lease_until) as detail
      from soak.runs as r
      where r.seq is not null`,
  },
  {
    guarantee: 'G6',
    says: 'a lease is settled at most once',
    sql: `
      select
        count(*) = 1 as ok,
        json_build_object('job', s.id, 'token', (s.before).lease_token, 'settles', count(*)) as detail
      from soak.steps as s
      where s.verb in ('settle', 'reap')
      group by s.id, (s.before).lease_token`,
  },
  {
    guarantee: 'G6',
    says: 'each verdict of settled is the one end of the lease whose token was presented',
    sql: `
      select
        count(*) over (partition by v.job, v.token) = 1
          and exists (
            select from soak.steps as s
            where s.id = v.job and s.verb in ('settle', 'reap') and (s.before).lease_token = v.token
          ) as ok,
        json_build_object('job', v.job, 'token', v.token) as detail
      from soak.verdicts as v`,
  },
  {
    guarantee: 'G6',
    says: 'a completion is the settle of the one run of its lease, which has returned, and carries its result',
    sql: `
      select
        r.run is not null
          and r.how = 'returned'
          and coalesce(substring((s.after).result::text from '"run":"([0-9a-f-]{36})"') = r.run::text, true) as ok,
        json_build_object('job', s.id, 'token', (s.before).lease_token, 'run', r.run, 'how', r.how,
          'result', left((s.after).result::text, 100)) as detail
      from soak.steps as s
      left join soak.runs as r on r.job = s.id and r.token = (s.before).lease_token
      where s.kind = 'complete'`,
  },
  {
    guarantee: 'G6',
    says: 'a finished job changes only by a requeue, which gives it all its attempts, or by a prune',
    sql: `
      select
        s.verb = 'prune'
          or (s.verb = 'requeue' and (s.after).attempts = 0 and (s.after).last_error is null
            and not (s.after).suspect and (s.after).cancel_requested_at is null) as ok,
        json_build_object('job', s.id, 'verb', s.verb, 'was', s.was, 'became', s.became) as detail
      from soak.steps as s
      where s.was in ('completed', 'dead', 'cancelled')`,
  },
  {
    guarantee: 'G7',
    says: 'when all ticks have drained the queue, nothing is leased and nothing that is due is left',
    sql: `
      select
        j.status in ('completed', 'dead', 'cancelled') as ok,
        json_build_object('job', j.id, 'type', j.type, 'status', j.status, 'lease_until', j.lease_until,
          'available_at', j.available_at, 'suspect', j.suspect, 'attempts', j.attempts) as detail
      from tidegate.jobs as j`,
  },
  {
    guarantee: 'G7',
    says: 'an ended lease is recovered before more than two whole ticks have passed it by, unless rows are locked',
    // Whoever holds any row keeps waiting the settle that has come to it, and with that all rows it has locked before.
    sql: `
      select
        (
          select count(*)
          from soak.ticks as t
          where t.started_at > greatest(l.lease_until, locked.until) and t.ended_at < l.end_at
            and t.stopped in ('empty', 'deadline', 'limit')
        ) <= 2 as ok,
        json_build_object('job', l.id, 'until', l.lease_until, 'recovered_at', l.end_at) as detail
      from soak.leases as l
      left join lateral (
        select max(k.ended_at) as until
        from soak.locks as k
        where k.began_at < l.end_at and k.ended_at > l.lease_until
      ) as locked on true
      where l.end_verb = 'reap'`,
  },
]
