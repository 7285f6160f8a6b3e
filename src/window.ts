import { admissionMs } from './registry.ts'

/** The time of one tick, on the root's own monotonic clock; never compared with the database's. */
export interface Window {
  readonly elapsedMs: () => number
  /** Until the deadline. */
  readonly remainingMs: () => number
  /** Until the part that is kept for the last settle and the push begins. */
  readonly runningMs: () => number
  /** Whether a job of this timeout would end before the reserve begins, with `keepMs` kept free besides. */
  readonly fits: (timeoutMs: number, keepMs?: number) => boolean
}

/** Opens a window of `windowMs` at this moment, the last `reserveMs` of which are kept for settling. */
export function openWindow(clock: () => number, windowMs: number, reserveMs: number): Window {
  const openedAt = clock()
  const elapsedMs = () => clock() - openedAt
  const remainingMs = () => windowMs - elapsedMs()
  const runningMs = () => remainingMs() - reserveMs
  return {
    elapsedMs,
    remainingMs,
    runningMs,
    fits: (timeoutMs, keepMs = 0) => admissionMs(timeoutMs) + keepMs <= runningMs(),
  }
}
