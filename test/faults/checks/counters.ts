import type { Check } from './check.ts'

/** Counters are the sum of the committed transitions. */
export const COUNTER_CHECKS: readonly Check[] = [
  {
    guarantee: 'G8',
    says: 'every counter has grown by exactly the transitions in the audit',
    sql: `
      with expected (name, type, label, value) as (
        select 'jobs_enqueued_total', s.type, '', count(*) from soak.steps as s where s.verb = 'enqueue' group by s.type
        union all
        select 'jobs_processed_total', s.type, case s.kind when 'complete' then 'completed' else 'failed' end, count(*)
        from soak.steps as s
        where s.kind in ('complete', 'retry', 'dead')
        group by 2, 3
        union all
        select 'jobs_released_total', s.type, '', count(*) from soak.steps as s where s.kind = 'release' group by s.type
        union all
        select 'jobs_snoozed_total', s.type, '', count(*) from soak.steps as s where s.kind = 'snooze' group by s.type
        union all
        select 'jobs_reaped_total', s.type, '', count(*) from soak.steps as s where s.verb = 'reap' group by s.type
        union all
        select 'jobs_died_total', s.type, '', count(*) from soak.steps as s where s.became = 'dead' group by s.type
        union all
        select 'jobs_cancelled_total', s.type, '', count(*) from soak.steps as s where s.became = 'cancelled' group by s.type
        union all
        select 'jobs_requeued_total', s.type, '', count(*) from soak.steps as s where s.verb = 'requeue' group by s.type
        union all
        select 'jobs_pruned_total', '', s.was, count(*) from soak.steps as s where s.verb = 'prune' group by s.was
        union all
        select 'job_start_latency_us', s.type, 'count', count(*) from soak.steps as s where s.verb = 'claim' group by s.type
        union all
        -- A crash has no duration, nor has a lease that was given back before its handler was entered.
        select 'job_processing_duration_us', s.type, 'count', count(*)
        from soak.steps as s
        where s.verb = 'settle' and (s.kind <> 'release' or s.remembered)
        group by s.type
      ),
      grown as (
        select a.name, a.type, a.label, sum(a.value) as value
        from (
          select
            c.name, c.type,
            case when c.name like '%_us' and c.label <> 'sum' then 'count' else c.label end as label,
            c.value
          from (
            select c.name, c.type, c.label, c.value from tidegate.counters as c
            union all
            select d.name, d.type, d.label, d.value from tidegate.counter_deltas as d
            union all
            select b.name, b.type, b.label, -b.value from soak.counters_before as b
          ) as c
        ) as a
        where a.label <> 'sum' and a.name in (select e.name from expected as e)
        group by a.name, a.type, a.label
      )
      select
        coalesce(e.value, 0) = coalesce(g.value, 0) as ok,
        json_build_object('name', name, 'type', type, 'label', label, 'audit', e.value, 'counter', g.value) as detail
      from expected as e
      full join grown as g using (name, type, label)`,
  },
  {
    guarantee: 'G8',
    says: 'ticks are counted once each, by what stopped them',
    sql: `
      select
        coalesce(t.count, 0) = coalesce(c.value, 0) as ok,
        json_build_object('stopped', label, 'ticks', t.count, 'counter', c.value) as detail
      from (select t.stopped as label, count(*) as count from tidegate.ticks as t group by t.stopped) as t
      full join (
        select a.label, sum(a.value) as value
        from (
          select c.label, c.value from tidegate.counters as c where c.name = 'ticks_total'
          union all
          select d.label, d.value from tidegate.counter_deltas as d where d.name = 'ticks_total'
        ) as a
        group by a.label
      ) as c using (label)`,
  },
]
