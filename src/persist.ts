import { DatabaseError, type ErrorKind } from './db/errors.ts'

/** How a call to the database is repeated. */
export interface Persistence {
  /** Milliseconds until nothing may be awaited any more. */
  readonly remainingMs: () => number
  readonly random: () => number
  /** Called before a call is repeated, with what went wrong. */
  readonly onRepeat: (error: DatabaseError) => void
}

const FIRST_PAUSE_MS = 50
const LONGEST_PAUSE_MS = 2_000

/**
 * Makes a call, and repeats it while it fails in ways that may pass and there is time. `call` is told how
 * the last try failed, for after an ambiguous one it must do only what is safe either way. Rejects with the
 * last error: a definite one at once, another when the time is up.
 */
export async function persist<Answer>(
  call: (last: ErrorKind | undefined) => Promise<Answer>,
  persistence: Persistence,
): Promise<Answer> {
  let ambiguous = false
  for (let tries = 0; ; tries += 1) {
    try {
      const last = tries === 0 ? undefined : ambiguous ? 'ambiguous' : 'transient'
      return await within(call(last), persistence.remainingMs())
    } catch (error) {
      if (!(error instanceof DatabaseError) || error.kind === 'definite') throw error
      ambiguous ||= error.kind === 'ambiguous'
      const pauseMs =
        Math.min(FIRST_PAUSE_MS * 2 ** tries, LONGEST_PAUSE_MS) * (0.5 + persistence.random() / 2)
      if (pauseMs >= persistence.remainingMs()) throw error
      persistence.onRepeat(error)
      await new Promise((resolve) => setTimeout(resolve, pauseMs))
    }
  }
}

/** Gives up waiting, not the statement: what it does is unknown from then on. */
function within<Answer>(answer: Promise<Answer>, limitMs: number): Promise<Answer> {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(
    () => reject(new DatabaseError('the database did not answer before the deadline', { kind: 'ambiguous' })),
    Math.max(0, limitMs),
  )
  return Promise.race([answer, promise]).finally(() => clearTimeout(timer))
}
