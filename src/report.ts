/**
 * Why a tick ended: nothing left to do; the window was used up; `maxJobs` was reached; the request budget
 * was used up; the runtime or the client asked it to; the database belongs to another environment (G11); or the
 * database could not be reached.
 */
export const STOP_REASONS = [
  'empty',
  'deadline',
  'limit',
  'budget',
  'shutdown',
  'wrong_database',
  'error',
] as const

/** One of {@link STOP_REASONS}. */
export type StopReason = (typeof STOP_REASONS)[number]

/** What one tick did. */
export interface TickReport {
  /** Runs started. */
  readonly claimed: number
  readonly completed: number
  /** Failed runs that will be tried again. */
  readonly retried: number
  readonly dead: number
  /** Leases given back with their attempt. */
  readonly released: number
  readonly snoozed: number
  /** Running jobs that their cancel mark ended. */
  readonly cancelled: number
  /** Runs whose lease was gone when they were settled. */
  readonly lost: number
  /** Expired leases of other ticks that this one settled as crashed. */
  readonly reaped: number
  /** Schedule slots fired. */
  readonly scheduled: number
  /** Finished jobs deleted for their age. */
  readonly pruned: number
  /** Statements sent. */
  readonly roundTrips: number
  /** Requests as Workers count them: handlers' fetches, connections or statements over HTTP, the push. */
  readonly subrequests: number
  readonly durationMs: number
  /** Milliseconds from due to started: the worst of this tick's runs, null without runs. */
  readonly startLatencyMs: number | null
  readonly stopped: StopReason
  /** Whether due jobs were left when the tick ended. */
  readonly more: boolean
  /** When the next job falls due, RFC 3339; null when none waits or it is not known. */
  readonly nextDueAt: string | null
  /** What went wrong, when `stopped` is `error` or `wrong_database`. */
  readonly error?: string
}
