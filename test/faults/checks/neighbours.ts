import type { Check } from './check.ts'

/** What is bad or foreign touches nobody else. */
export const NEIGHBOUR_CHECKS: readonly Check[] = [
  {
    guarantee: 'G10',
    says: 'beside a bad job in the same tick every good one completes, and keeps its result',
    sql: `
      select
        r.end_verb = 'settle' and r.end_kind = 'complete'
          and (r.behaviour <> 'ok' or (s.after).result::text like '%' || r.run || '%') as ok,
        json_build_object('job', r.job, 'run', r.run, 'tick', r.tick, 'end', r.end_verb, 'kind', r.end_kind,
          'result', left((s.after).result::text, 100)) as detail
      from soak.calm_ticks as c
      join soak.runs as r on r.tick = c.tick
      join soak.leases as l on l.seq = r.seq
      left join soak.steps as s on s.seq = l.end_seq
      where r.behaviour in ('ok', 'odd', 'big', 'stray')
        and exists (
          select from soak.runs as b
          where b.tick = c.tick and b.behaviour in ('fail', 'permanent', 'nul', 'unstorable', 'hang', 'overtime',
            'deaf', 'odd', 'big', 'stray')
        )`,
  },
  {
    guarantee: 'G10',
    says: 'no tick fails for what a job said',
    sql: `
      select
        coalesce(t.error !~ 'refused|violates|invalid|unsupported|out of range', true) as ok,
        json_build_object('tick', t.tick, 'error', t.error) as detail
      from soak.ticks as t
      where t.environment = 'soak'`,
  },
  {
    guarantee: 'G10',
    says: 'a job that always kills its process ends dead within its attempts, or cancelled, and never completes',
    sql: `
      select
        j.status in ('dead', 'cancelled') and j.attempts <= j.max_attempts as ok,
        json_build_object('job', j.id, 'status', j.status, 'attempts', j.attempts) as detail
      from tidegate.jobs as j
      where j.type = 'soak.poison' and j.payload::jsonb->'script' = '["kill"]'`,
  },
  {
    guarantee: 'G10',
    says: 'a job that kills its process costs a neighbour at most one attempt, with its first crash',
    sql: `
      select
        not k.suspect and count(*) over (partition by k.job, k.life, n.id) = 1 as ok,
        json_build_object('killer', k.job, 'run', k.run, 'suspect', k.suspect, 'neighbour', n.id) as detail
      from soak.kills as d
      join soak.runs as k on k.run = d.run
      join soak.leases as n on n.tick = k.tick and n.id <> k.job and n.end_verb = 'reap'
      where exists (select from soak.runs as r where r.seq = n.seq)`,
  },
  {
    guarantee: 'G10',
    says: 'a suspect runs alone in its tick',
    sql: `
      with runs as (
        select
          r.run, r.job, r.token, r.tick, r.suspect, r.behaviour, r.start_at,
          least(coalesce(r.end_at, l.end_at), l.end_at, l.lease_until) as end_at
        from soak.runs as r
        join soak.leases as l on l.seq = r.seq
      ),
      -- A handler that was told to stop and does not return loses its attempt whatever its neighbours do.
      given_up as (select m.id, (m.before).lease_token as token from soak.steps as m where m.verb = 'mark')
      select
        o.run is null as ok,
        json_build_object('suspect', s.job, 'run', s.run, 'tick', s.tick, 'start_at', s.start_at, 'end_at', s.end_at,
          'beside', o.job, 'behaviour', o.behaviour, 'o_start_at', o.start_at, 'o_end_at', o.end_at) as detail
      from runs as s
      left join lateral (
        select o.*
        from runs as o
        where o.tick = s.tick and o.run <> s.run and o.start_at < s.end_at and o.end_at > s.start_at
          and not exists (select from given_up as g where g.id = o.job and g.token = o.token)
        limit 1
      ) as o on true
      where s.suspect`,
  },
  {
    guarantee: 'G10',
    says: 'whatever crashed is a suspect, and nothing else is',
    sql: `
      select
        (s.after).suspect = (s.verb = 'reap' or (s.kind = 'release' and (s.before).suspect)) as ok,
        json_build_object('job', s.id, 'verb', s.verb, 'kind', s.kind) as detail
      from soak.steps as s
      where s.verb in ('settle', 'reap')`,
  },
  {
    guarantee: 'G11',
    says: 'a tick of another environment refuses the database and enters no handler',
    sql: `
      select
        t.stopped in ('wrong_database', 'error') and not exists (select from soak.starts as r where r.tick = t.tick) as ok,
        json_build_object('tick', t.tick, 'worker', t.worker, 'stopped', t.stopped) as detail
      from soak.ticks as t
      where t.environment <> 'soak'`,
  },
  {
    guarantee: 'G11',
    says: 'and no handler of another environment was entered, nor did its role write one row in any table',
    sql: `
      select s.role <> 'soak_foreign' as ok, json_build_object('job', s.id, 'verb', s.verb) as detail
      from soak.steps as s
      union all
      select r.environment = 'soak', json_build_object('job', r.job, 'run', r.run) from soak.starts as r
      union all
      select false, json_build_object('table', t.tab, 'op', t.op) from soak.trespasses as t`,
  },
]
