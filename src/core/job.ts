/** Every state a job can be in. `pending` covers delayed jobs and retries; `dead` is a status, not a second queue. */
export const STATUSES = ['pending', 'running', 'completed', 'dead', 'cancelled'] as const

/** One of {@link STATUSES}. */
export type Status = (typeof STATUSES)[number]

/** A value that JSON can carry. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }

/** The bounds of a job's fields. The database holds them too, as CHECK constraints. */
export const LIMITS = {
  typePattern: /^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$/,
  keyLength: 255,
  payloadBytes: 262_144,
  payloadDepth: 64,
  priority: 100,
  delaySeconds: 31_536_000,
  maxAttempts: 100,
  errorLength: 8_192,
  resultBytes: 65_536,
} as const

/** Attempts of a job whose enqueue and type name none. */
export const DEFAULT_MAX_ATTEMPTS = 5

/**
 * A text that Postgres can store and that is worth storing: U+0000 and lone surrogates become U+FFFD, and
 * what is longer than `maxLength` UTF-16 units is cut.
 */
export function storableText(text: string, maxLength: number = LIMITS.errorLength): string {
  return text.slice(0, maxLength).replaceAll('\0', '\uFFFD').toWellFormed()
}
