import { z } from 'zod'

import { LIMITS } from '../core/job.ts'
import { expected, fields, integer } from './input.ts'

/** The schema of an enqueue's body. */
export const ENQUEUE_BODY = fields({
  type: typeName(),
  payload: payload(),
  idempotency_key: key(),
  priority: integer(-LIMITS.priority, LIMITS.priority).optional(),
  delay_seconds: delaySeconds().optional(),
  available_at: instant().optional(),
  max_attempts: integer(0, LIMITS.maxAttempts).optional(),
})

/** An instant of the body in UTC, to six digits of a second: Postgres reads neither every offset nor every length. */
export function storableInstant(text: string): string {
  const fraction = /\.\d{1,6}/.exec(text)?.[0] ?? ''
  return `${new Date(text).toISOString().slice(0, 19)}${fraction}Z`
}

function typeName() {
  const error = expected(`a job type of the form ${LIMITS.typePattern.source}`)
  return z.string({ error }).regex(LIMITS.typePattern, { error })
}

// Not `z.json()`: that copies the value and loses a key called `__proto__`.
function payload() {
  const error = expected('a JSON value other than null')
  return z.unknown().refine((value) => value !== undefined && value !== null, { error })
}

function key() {
  const error = expected(`1 to ${LIMITS.keyLength} characters without U+0000 and lone surrogates`)
  const isKey = (text: string): boolean => {
    // Characters as Postgres counts them.
    const { length } = Array.from(text)
    return length >= 1 && length <= LIMITS.keyLength && !text.includes('\0') && text.isWellFormed()
  }
  return z.string({ error }).refine(isKey, { error }).meta({ minLength: 1, maxLength: LIMITS.keyLength })
}

function delaySeconds() {
  const error = expected(`a number from 0 to ${LIMITS.delaySeconds}`)
  return z.number({ error }).min(0, { error }).max(LIMITS.delaySeconds, { error })
}

function instant() {
  const error = expected('an RFC 3339 instant with its offset, from 1970 to a year ahead')
  const isNear = (text: string): boolean => {
    const ms = Date.parse(text)
    // It keeps out mistakes and decides nothing, so this process's clock is good enough.
    return ms >= 0 && ms <= Date.now() + LIMITS.delaySeconds * 1_000
  }
  return z.iso.datetime({ offset: true, abort: true, error }).refine(isNear, { error })
}
