import type { Check } from './check.ts'

/** Attempts are charged when a job is claimed, never exceed their limit, and never before it is due. */
export const ATTEMPT_CHECKS: readonly Check[] = [
  {
    guarantee: 'G3',
    says: 'at every step the attempts of a job are its claims less its refunds in this life, within its limit',
    sql: `
      select
        (s.after).attempts = s.charged and s.charged between 0 and (s.after).max_attempts as ok,
        json_build_object('job', s.id, 'verb', s.verb, 'attempts', (s.after).attempts, 'charged', s.charged) as detail
      from soak.steps as s
      where s.verb <> 'prune'`,
  },
  {
    guarantee: 'G3',
    says: 'a handler is entered at most once per claim, and never without one',
    sql: `
      select
        r.seq is not null and count(*) over (partition by r.job, r.token) = 1 as ok,
        json_build_object('job', r.job, 'run', r.run, 'token', r.token) as detail
      from soak.runs as r`,
  },
  {
    guarantee: 'G3',
    says: 'an attempt is given back only if the handler was not entered, or has returned',
    sql: `
      select
        r.run is null or r.how is not null as ok,
        json_build_object('job', l.id, 'run', r.run, 'kind', l.end_kind) as detail
      from soak.leases as l
      left join soak.runs as r on r.job = l.id and r.token = l.token
      where l.end_kind in ('release', 'snooze')`,
  },
  {
    guarantee: 'G3',
    says: 'no attempt is charged for nothing: what a tick leased, it enters or gives back, even if the answer was lost',
    // Except for a claim that was committed only after its tick had asked what became of it.
    sql: `
      select
        l.end_kind = 'release' or exists (select from soak.runs as r where r.seq = l.seq) as ok,
        json_build_object('job', l.id, 'token', l.token, 'tick', l.tick, 'committed_at', l.committed_at) as detail
      from soak.leases as l
      join soak.calm_ticks as t on t.tick = l.tick
      where not exists (
        select from soak.recalls as r
        where r.token = l.token and r.at < l.committed_at + interval '50 milliseconds'
      )`,
  },
  {
    guarantee: 'G4',
    says: 'no claim before available_at, by the database’s clock',
    sql: `
      select
        s.at >= (s.before).available_at and s.now >= (s.before).available_at as ok,
        json_build_object('job', s.id, 'at', s.at, 'available_at', (s.before).available_at) as detail
      from soak.steps as s
      where s.verb = 'claim'`,
  },
  {
    guarantee: 'G4',
    says: 'no handler is entered before available_at, to within the error of the worker’s copy of that clock',
    sql: `
      select
        r.start_at >= r.available_at - interval '50 milliseconds' as ok,
        json_build_object('job', r.job, 'start_at', r.start_at, 'available_at', r.available_at) as detail
      from soak.runs as r
      where r.seq is not null`,
  },
]
