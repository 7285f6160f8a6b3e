import type { DatabaseError } from './db/errors.ts'
import type { Logger } from './log.ts'
import { persist } from './persist.ts'
import type { Window } from './window.ts'

/** How a tick speaks to the database: every call with its retries, counted and timed. */
export interface Caller {
  /** Makes a call. `once` is told whether an earlier try may have taken effect. */
  readonly call: <Answer>(once: (ambiguous: boolean) => Promise<Answer>) => Promise<Answer>
  readonly roundTrips: () => number
  /** How long the last try took. */
  readonly lastTripMs: () => number
}

/** Creates the caller of one tick. */
export function createCaller(window: Window, clock: () => number, random: () => number, log: Logger): Caller {
  let roundTrips = 0
  let lastTripMs = 0

  const attempt = <Answer>(once: (ambiguous: boolean) => Promise<Answer>): Promise<Answer> =>
    persist(
      (last) => {
        roundTrips += 1
        const sentAt = clock()
        return once(last === 'ambiguous').finally(() => {
          lastTripMs = clock() - sentAt
        })
      },
      {
        remainingMs: window.answerMs,
        random,
        onRepeat: (error) => log.warn('database call repeated', errorFields(error)),
      },
    )

  return {
    call: attempt,
    roundTrips: () => roundTrips,
    lastTripMs: () => lastTripMs,
  }
}

/** What a log line may say of a database error. */
export function errorFields(error: DatabaseError): { kind: string; code: string | undefined; error: string } {
  return { kind: error.kind, code: error.code, error: error.message }
}
