/**
 * How long a job waits after a failure.
 *
 * - A curve: `baseMs × factor^(attempt − 1)`, plus a random 0–50 %, never more than `maxMs`.
 * - A list: the delay of each attempt, whose last entry repeats, plus a random 0–50 %. `maxMs` does not apply.
 *
 * Neither is ever under {@link MIN_BACKOFF_MS}.
 */
export type Backoff =
  | { readonly baseMs: number; readonly factor: number; readonly maxMs: number }
  | { readonly delaysMs: readonly number[] }

/** No retry is due sooner than this after the failure. */
export const MIN_BACKOFF_MS = 1_000

/** The greatest delay of any kind: a year, as for an enqueue. */
export const MAX_DELAY_MS = 31_536_000_000

/** Five attempts on this curve outlive an outage of 21 minutes. */
export const DEFAULT_BACKOFF: Backoff = { baseMs: 15_000, factor: 4, maxMs: 3_600_000 }

/**
 * Milliseconds until the run after `attempt` (the first is 1) may start. `random` is in [0, 1).
 */
export function backoffMs(attempt: number, backoff: Backoff, random: () => number): number {
  const jitter = 1 + random() / 2
  const delay =
    'delaysMs' in backoff
      ? (backoff.delaysMs[Math.min(attempt, backoff.delaysMs.length) - 1] ?? MIN_BACKOFF_MS) * jitter
      : Math.min(backoff.baseMs * backoff.factor ** (attempt - 1) * jitter, backoff.maxMs)
  return boundedDelayMs(delay)
}

/** A delay that can be stored: whole milliseconds within the bounds, the least for what is not a number. */
export function boundedDelayMs(delayMs: number): number {
  if (Number.isNaN(delayMs)) return MIN_BACKOFF_MS
  return Math.round(Math.min(Math.max(delayMs, MIN_BACKOFF_MS), MAX_DELAY_MS))
}
