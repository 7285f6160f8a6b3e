import type { Check } from './check.ts'

/** Ticks return in time and leave nothing open. */
export const TICK_CHECKS: readonly Check[] = [
  {
    guarantee: 'G9',
    says: 'a tick returns before its deadline, unless its process was kept from running',
    sql: `
      select
        t.late_ms <= 50 + t.lag_ms
          or exists (
            select from soak.stops as s
            where s.worker = t.worker and s.began_at < t.ended_at and s.ended_at > t.started_at
          ) as ok,
        json_build_object('tick', t.tick, 'worker', t.worker, 'late_ms', t.late_ms, 'lag_ms', t.lag_ms,
          'stopped', t.stopped, 'started_at', t.started_at) as detail
      from soak.ticks as t`,
  },
  {
    guarantee: 'G9',
    says: 'no transaction of a tick is older than two lock timeouts, and none is open when the ticks have ended',
    sql: `
      select
        case s.phase when 'after' then s.in_transaction = 0 else s.oldest_ms < 11000 end as ok,
        json_build_object('phase', s.phase, 'open', s.in_transaction, 'oldest_ms', s.oldest_ms, 'at', s.at) as detail
      from soak.samples as s`,
  },
  {
    guarantee: 'G9',
    says: 'no process ends by itself: only by a fault, by a job that ends it, or when it is told to',
    sql: `
      select
        e.how in ('code 0', 'signal SIGTERM', 'signal SIGKILL', 'code 3') as ok,
        json_build_object('worker', e.worker, 'how', e.how, 'last_words', e.last_words) as detail
      from soak.exits as e`,
  },
]
