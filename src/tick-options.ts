import { DEFAULT_BACKOFF, type Backoff } from './core/backoff.ts'
import type { Database } from './db/sql.ts'
import type { Logger } from './log.ts'
import type { Registry } from './registry.ts'
import type { Retention } from './store/close.ts'
import type { MetricRow } from './store/metrics.ts'

/** What a root gives to its ticks. */
export interface TickDependencies {
  readonly registry: Registry
  /** Opens a way to the database; the tick closes it. */
  readonly openDatabase: () => Database
  /** The platform's bindings, for handlers. */
  readonly env: unknown
  /** TIDEGATE_ENV: whose jobs this root may run. */
  readonly environment: string
  readonly settings: TickSettings
  readonly log: Logger
  /** Sends a snapshot of the metrics; absent when there is no gateway. Resolves to what went wrong, or null. */
  readonly push?: (sequence: number, metrics: readonly MetricRow[]) => Promise<string | null>
  /** Defaults to the global one. */
  readonly fetch?: typeof fetch
  /** Milliseconds on a monotonic clock. Defaults to `performance.now`. */
  readonly clock?: () => number
  /** In [0, 1). Defaults to `Math.random`. */
  readonly random?: () => number
}

/** Bounds of every tick of a root. */
export interface TickSettings {
  /** Runs at a time. */
  readonly concurrency: number
  /** Jobs that one call leases at most. */
  readonly batch: number
  /** Part of the window that is kept for the last settle and the push. */
  readonly reserveMs: number
  /** How long a lease outlives the tick's deadline. */
  readonly leaseMarginMs: number
  /** Bytes of payload after which one call leases no further job. */
  readonly claimBytes: number
  /** For expired leases of types that this root does not know. */
  readonly backoff: Backoff
  readonly retention: Retention
  /** How long a pusher of metrics keeps others away. */
  readonly pushLeaseMs: number
  /** Subrequests of one tick, its own and its handlers'; undefined leaves it to the platform. */
  readonly maxSubrequests: number | undefined
}

/** Settings of a root that names none. */
export const TICK_SETTINGS: TickSettings = {
  concurrency: 10,
  batch: 10,
  reserveMs: 5_000,
  leaseMarginMs: 10_000,
  claimBytes: 4_194_304,
  backoff: DEFAULT_BACKOFF,
  retention: { completedSeconds: 604_800, cancelledSeconds: 604_800, deadSeconds: 7_776_000 },
  pushLeaseMs: 30_000,
  maxSubrequests: undefined,
}

/** One tick. */
export interface TickOptions {
  /** Milliseconds from now to the deadline, before which the tick returns. */
  readonly windowMs: number
  /** Runs to start at most; 0, the default, leaves it to the window. */
  readonly maxJobs?: number
  /** Aborts when the tick has to stop: nothing more is claimed, and what returns is released. */
  readonly signal?: AbortSignal
  /** Aborts when nothing more is to be claimed, while what runs may still end by itself. */
  readonly closing?: AbortSignal
  /** When nothing is due, look again this often until the window is used up. Defaults to ending. */
  readonly lingerMs?: number
  /** Makes it a kick: it does nothing while another is under way, and says at its end whether to look again. */
  readonly kick?: { readonly token: string; readonly onEnd: (again: boolean) => void }
}
