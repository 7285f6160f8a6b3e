import { z } from 'zod'

import { STOP_REASONS, type TickReport } from '../report.ts'

/** What a tick did, in the names of the API. */
export function reportJson(report: TickReport): object {
  return {
    claimed: report.claimed,
    completed: report.completed,
    retried: report.retried,
    dead: report.dead,
    released: report.released,
    snoozed: report.snoozed,
    cancelled: report.cancelled,
    lost: report.lost,
    reaped: report.reaped,
    scheduled: report.scheduled,
    pruned: report.pruned,
    round_trips: report.roundTrips,
    subrequests: report.subrequests,
    duration_ms: report.durationMs,
    start_latency_ms: report.startLatencyMs,
    stopped: report.stopped,
    more: report.more,
    next_due_at: report.nextDueAt,
    error: report.error,
  }
}

/** The schema of {@link reportJson}. */
export function reportSchema(): z.ZodType {
  const count = (description: string) => z.int().meta({ description })
  return z
    .object({
      claimed: count('Runs started'),
      completed: count('Runs that succeeded'),
      retried: count('Failed runs that will be tried again'),
      dead: count('Failed runs that were the last'),
      released: count('Leases given back with their attempt'),
      snoozed: count('Runs that asked to run again later'),
      cancelled: count('Running jobs that their cancel mark ended'),
      lost: count('Runs whose lease was gone when they were settled'),
      reaped: count('Expired leases of other ticks, settled as crashed'),
      scheduled: count('Schedule slots fired'),
      pruned: count('Finished jobs deleted for their age'),
      round_trips: count('Statements sent'),
      subrequests: count('Requests of handlers and of the tick itself, as Workers count them'),
      duration_ms: z.number(),
      start_latency_ms: z
        .number()
        .nullable()
        .meta({ description: 'From due to started, at worst; null without runs' }),
      stopped: z.enum(STOP_REASONS),
      more: z.boolean().meta({ description: 'Whether due jobs were left' }),
      next_due_at: z.iso.datetime().nullable(),
      error: z.string().optional().meta({ description: 'When stopped is error or wrong_database' }),
    })
    .meta({ id: 'TickReport' })
}
