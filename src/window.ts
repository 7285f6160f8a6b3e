import { admissionMs } from './registry.ts'

/** The time of one tick, on the root's own monotonic clock; never compared with the database's. */
export interface Window {
  readonly elapsedMs: () => number
  /** Until the deadline. */
  readonly remainingMs: () => number
  /** Until the last moment at which an answer of the database is of use: the tick then says goodbye and returns. */
  readonly answerMs: () => number
  /** Until the part that is kept for the last settle and the push begins. */
  readonly runningMs: () => number
  /** Whether a job of this timeout would end before the reserve begins, with `keepMs` kept free besides. */
  readonly fits: (timeoutMs: number, keepMs?: number) => boolean
}

/** What a tick needs to end after it has stopped waiting. */
const CLOSING_MS = 250

/** Opens a window of `windowMs` at this moment, the last `reserveMs` of which are kept for settling. */
export function openWindow(clock: () => number, windowMs: number, reserveMs: number): Window {
  const openedAt = clock()
  const elapsedMs = () => clock() - openedAt
  const remainingMs = () => windowMs - elapsedMs()
  const runningMs = () => remainingMs() - reserveMs
  return {
    elapsedMs,
    remainingMs,
    answerMs: () => remainingMs() - Math.min(CLOSING_MS, windowMs / 4),
    runningMs,
    fits: (timeoutMs, keepMs = 0) => admissionMs(timeoutMs) + keepMs <= runningMs(),
  }
}
