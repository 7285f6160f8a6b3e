import type { Check } from './check.ts'

/** Nothing that was acknowledged is lost, and nothing that failed is there. */
export const ENQUEUE_CHECKS: readonly Check[] = [
  {
    guarantee: 'G1',
    says: 'every acknowledged key has its job in a lawful state, or it was pruned after it had finished',
    sql: `
      select
        (j.status in ('pending', 'running', 'completed', 'dead', 'cancelled'))
          or exists (select from soak.steps as s where s.key = a.key and s.verb = 'prune') as ok,
        json_build_object('key', a.key) as detail
      from soak.acknowledged as a
      left join tidegate.jobs as j on j.idempotency_key = a.key`,
  },
  {
    guarantee: 'G1',
    says: 'rows now = rows before + enqueued − pruned, type by type',
    sql: `
      with moved as (
        select s.type, count(*) filter (where s.verb = 'enqueue') - count(*) filter (where s.verb = 'prune') as count
        from soak.steps as s
        group by s.type
      ),
      kept as (select j.type, count(*) as count from tidegate.jobs as j group by j.type)
      select
        coalesce(b.count, 0) + coalesce(m.count, 0) = coalesce(k.count, 0) as ok,
        json_build_object('type', type, 'before', b.count, 'moved', m.count, 'now', k.count) as detail
      from moved as m
      full join kept as k using (type)
      full join soak.jobs_before as b using (type)`,
  },
  {
    guarantee: 'G1',
    says: 'only finished jobs beyond their retention are pruned',
    sql: `
      select
        case s.was
          when 'completed' then (s.before).completed_at <= s.now - interval '45 seconds'
          when 'cancelled' then (s.before).cancelled_at <= s.now - interval '45 seconds'
          when 'dead' then (s.before).died_at <= s.now - interval '60 seconds'
          else false
        end as ok,
        json_build_object('job', s.id, 'status', s.was) as detail
      from soak.steps as s
      where s.verb = 'prune'`,
  },
  {
    guarantee: 'G2',
    says: 'an enqueue that failed for certain, every time, left nothing',
    sql: `
      with keys as (
        select e.key
        from soak.enqueues as e
        group by e.key
        having count(*) filter (where e.outcome = 'sent')
          = count(*) filter (where e.outcome in ('failed', 'rolled back'))
      )
      select
        not exists (select from soak.steps as s where s.key = k.key)
          and not exists (select from tidegate.jobs as j where j.idempotency_key = k.key) as ok,
        json_build_object('key', k.key) as detail
      from keys as k`,
  },
  {
    guarantee: 'G2',
    says: 'an acknowledged key made exactly one job, however often and by how many it was sent',
    sql: `
      select
        count(distinct e.job) = 1
          and (select count(*) from soak.steps as s where s.key = e.key and s.verb = 'enqueue') = 1 as ok,
        json_build_object('key', e.key, 'jobs', count(distinct e.job)) as detail
      from soak.enqueues as e
      where e.outcome = 'acknowledged'
      group by e.key`,
  },
  {
    guarantee: 'G2',
    says: 'a key is inserted again only after its row was pruned',
    sql: `
      select
        s.was_verb is null or s.was_verb = 'prune' as ok,
        json_build_object('key', s.key, 'job', s.id) as detail
      from (
        select s.*, lag(s.verb) over (partition by s.key order by s.seq) as was_verb
        from soak.steps as s
        where s.verb in ('enqueue', 'prune')
      ) as s
      where s.verb = 'enqueue'`,
  },
  {
    guarantee: 'G2',
    says: 'a job enqueued in a caller’s transaction is there exactly if what the caller wrote is',
    sql: `
      with keys as (
        select
          e.key,
          bool_or(e.outcome = 'committed') as committed,
          bool_or(e.outcome = 'rolled back') as rolled_back
        from soak.enqueues as e
        where e.transaction
        group by e.key
      )
      select
        (o.key is not null) = (s.key is not null)
          and (not k.committed or o.key is not null)
          and (not k.rolled_back or o.key is null) as ok,
        json_build_object('key', k.key, 'order', o.key is not null, 'job', s.id) as detail
      from keys as k
      left join soak.orders as o on o.key = k.key
      left join soak.steps as s on s.key = k.key and s.verb = 'enqueue'`,
  },
  {
    guarantee: 'G2',
    says: 'follow-ups are inserted all together, with the completion of the run that asked for them',
    sql: `
      select
        (
          select count(*)
          from soak.steps as s
          where s.verb = 'enqueue' and s.txid = l.end_txid and s.key like r.job || ':%'
        ) = case when r.end_kind = 'complete' then r.follow_ups else 0 end as ok,
        json_build_object('job', r.job, 'run', r.run, 'asked', r.follow_ups, 'end', r.end_kind) as detail
      from soak.runs as r
      join soak.leases as l on l.seq = r.seq
      where r.follow_ups > 0 and l.end_seq is not null`,
  },
  {
    guarantee: 'G2',
    says: 'no follow-up comes without the completion of its parent',
    sql: `
      select
        exists (
          select from soak.steps as p
          where p.id = left(s.key, 36)::uuid and p.txid = s.txid and p.kind = 'complete'
        ) as ok,
        json_build_object('key', s.key) as detail
      from soak.steps as s
      where s.verb = 'enqueue' and s.key ~ '^[0-9a-f-]{36}:[0-9]+$'`,
  },
]
