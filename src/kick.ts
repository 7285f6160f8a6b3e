import type { TickReport } from './report.ts'
import type { TickOptions } from './tick-options.ts'

/** What a kick is made of. */
export interface KickDependencies {
  readonly tick: (options: TickOptions) => Promise<TickReport>
  /** Milliseconds that all of one kick's ticks may take together. */
  readonly windowMs: number
  /** Milliseconds on a monotonic clock. Defaults to `performance.now`. */
  readonly clock?: () => number
}

/** A window shorter than this runs nothing worth its calls. */
const SHORTEST_MS = 2_000

/**
 * Creates the kick of a root: a small tick right after an enqueue, for latency alone. One at a time is
 * under way in a database; whoever comes meanwhile leaves word there, and the one under way looks again, so
 * no enqueue is forgotten. In this process a second call only leaves that word in memory. Rejects never.
 */
export function createKick({
  tick,
  windowMs,
  clock = () => performance.now(),
}: KickDependencies): () => Promise<void> {
  let underWayUntil: number | undefined
  let again = false

  const kick = async (): Promise<void> => {
    const endsAt = clock() + windowMs
    const token = crypto.randomUUID()
    underWayUntil = endsAt
    do {
      again = false
      let wanted = false
      await tick({ windowMs: endsAt - clock(), kick: { token, onEnd: (word) => (wanted = word) } })
      again ||= wanted
    } while (again && endsAt - clock() > SHORTEST_MS)
    // In the same turn as the last look at `again`: what comes from now on is a kick of its own.
    underWayUntil = undefined
  }

  return async () => {
    // An invocation that was cut off never says that it has ended: its window does.
    if (underWayUntil !== undefined && clock() < underWayUntil) {
      again = true
      return
    }
    try {
      await kick()
    } catch {
      // The tick has logged it; the next scheduled one does the work.
      underWayUntil = undefined
    }
  }
}
