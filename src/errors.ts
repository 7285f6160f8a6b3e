/**
 * Throw it from a handler when another attempt cannot help: the job is `dead` at once, whatever its attempts.
 */
export class PermanentError extends Error {
  override readonly name: string = 'PermanentError'
}

/** Throw it from a handler when the outside said how long to wait: the retry is not due before that. */
export class RetryAfterError extends Error {
  override readonly name: string = 'RetryAfterError'
  readonly retryAfterMs: number

  constructor(message: string, options: { readonly retryAfterMs: number; readonly cause?: unknown }) {
    super(message, { cause: options.cause })
    this.retryAfterMs = options.retryAfterMs
  }
}

/** What {@link snooze} returns. */
export class Snooze {
  readonly delayMs: number

  constructor(delayMs: number) {
    this.delayMs = delayMs
  }
}

/** Return it from a handler to run again later; a snooze costs no attempt. At least one second. */
export function snooze(delay: { readonly seconds: number }): Snooze {
  return new Snooze(delay.seconds * 1_000)
}
