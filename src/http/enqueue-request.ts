import { z } from 'zod'

import { LIMITS } from '../core/job.ts'
import { InvalidInput, payloadText, storabilityIssues, type Issue } from '../payload.ts'
import type { RegisteredJob, Registry } from '../registry.ts'
import type { EnqueueInput } from '../store/enqueue.ts'
import { HttpError } from './errors.ts'
import { dotted, expected, fields, integer, issuesOf } from './input.ts'

/** The body of an enqueue. The key may come as a header instead. */
export function enqueueBody() {
  return fields({
    type: typeName(),
    payload: payload(),
    idempotency_key: key(),
    priority: integer(-LIMITS.priority, LIMITS.priority).optional(),
    delay_seconds: delaySeconds().optional(),
    available_at: instant().optional(),
    max_attempts: integer(0, LIMITS.maxAttempts).optional().meta({ description: '0 is the default of the type' }),
  })
}

/** What an enqueue sends beside its body. */
export interface EnqueueHeaders {
  readonly idempotencyKey: string | undefined
  readonly traceparent: string | undefined
}

/**
 * Reads an enqueue from outside. Throws {@link InvalidInput} with everything that is wrong with it, the
 * issues of the type's own schema included, and a 413 when the payload is over its limit. What is stored is
 * the input of that schema, never its output.
 */
export async function readEnqueue(
  sent: unknown,
  headers: EnqueueHeaders,
  registry: Registry,
): Promise<EnqueueInput> {
  const parsed = BODY.safeParse(withHeaderKey(sent, headers.idempotencyKey))
  const job = registry.get(String(field(sent, 'type')))
  const { text, issues } = await readPayload(field(sent, 'payload'), job)
  const wrong = [...(parsed.error ? issuesOf(parsed.error) : []), ...conflicts(sent, headers), ...issues]
  if (!parsed.success || wrong.length > 0) throw new InvalidInput(wrong)
  const { type, idempotency_key, priority, delay_seconds, available_at, max_attempts } = parsed.data
  const maxAttempts = max_attempts === undefined || max_attempts === 0 ? job?.maxAttempts : max_attempts
  return {
    type,
    payload: text,
    idempotencyKey: idempotency_key,
    known: job !== undefined,
    ...(priority === undefined ? {} : { priority }),
    ...(delay_seconds === undefined ? {} : { delayMs: Math.round(delay_seconds * 1_000) }),
    ...(available_at === undefined ? {} : { availableAt: storableInstant(available_at) }),
    ...(maxAttempts === undefined ? {} : { maxAttempts }),
    ...(isTraceparent(headers.traceparent) ? { traceparent: headers.traceparent } : {}),
  }
}

function typeName() {
  const error = expected(`a job type of the form ${LIMITS.typePattern.source}`)
  return z.string({ error }).regex(LIMITS.typePattern, { error })
}

// Not `z.json()`: that copies the value and loses a key called `__proto__`.
function payload() {
  const error = expected('a JSON value other than null')
  return z
    .unknown()
    .refine((value) => value !== undefined && value !== null, { error })
    .meta({ description: `Any JSON value but null, at most ${LIMITS.payloadBytes} bytes` })
}

function key() {
  const error = expected(`1 to ${LIMITS.keyLength} characters without U+0000 and lone surrogates`)
  const isKey = (text: string) =>
    // Characters as Postgres counts them: code points.
    [...text].length >= 1 && [...text].length <= LIMITS.keyLength && !text.includes('\0') && text.isWellFormed()
  return z.string({ error }).refine(isKey, { error }).meta({ minLength: 1, maxLength: LIMITS.keyLength })
}

function delaySeconds() {
  const error = expected(`a number from 0 to ${LIMITS.delaySeconds}`)
  return z
    .number({ error })
    .min(0, { error })
    .max(LIMITS.delaySeconds, { error })
    .meta({ description: 'From now, by the clock of the database; rounded to milliseconds' })
}

function instant() {
  const error = expected('an RFC 3339 instant with its offset, from 1970 to a year ahead')
  const isNear = (text: string) => {
    const ms = Date.parse(text)
    // Our own clock will do: this keeps out mistakes, and Postgres's compares nothing here.
    return ms >= 0 && ms <= Date.now() + LIMITS.delaySeconds * 1_000
  }
  return z.iso.datetime({ offset: true, error }).refine(isNear, { error })
}

const BODY = enqueueBody()

/** The payload as it is stored, or what is wrong with it. The text is taken first: a schema may change its input. */
async function readPayload(
  value: unknown,
  job: RegisteredJob | undefined,
): Promise<{ readonly text: string; readonly issues: readonly Issue[] }> {
  if (value === undefined || value === null) return { text: '', issues: [] }
  const issues = storabilityIssues(value, 'payload')
  if (issues.length > 0) return { text: '', issues }
  const text = sizedText(value)
  return { text, issues: job === undefined ? [] : await schemaIssues(job, value) }
}

function sizedText(storable: unknown): string {
  try {
    return payloadText(storable)
  } catch (error) {
    // It can be stored, so what is left to refuse is its size.
    if (error instanceof InvalidInput) throw new HttpError(413, 'payload_too_large', error.message)
    throw error
  }
}

/** The most issues of one payload that an answer lists: each of its values can be one. */
const MOST_ISSUES = 100

async function schemaIssues(job: RegisteredJob, value: unknown): Promise<readonly Issue[]> {
  const { issues = [] } = await job.payload['~standard'].validate(value)
  return issues.slice(0, MOST_ISSUES).map(({ message, path = [] }) => {
    const keys = path.map((segment) => (typeof segment === 'object' ? segment.key : segment))
    return { path: dotted(['payload', ...keys]), message }
  })
}

function withHeaderKey(sent: unknown, headerKey: string | undefined): unknown {
  if (headerKey === undefined || !isObject(sent) || sent.idempotency_key !== undefined) return sent
  return { ...sent, idempotency_key: headerKey }
}

function conflicts(sent: unknown, { idempotencyKey }: EnqueueHeaders): readonly Issue[] {
  const issues: Issue[] = []
  const sentKey = field(sent, 'idempotency_key')
  if (idempotencyKey !== undefined && sentKey !== undefined && sentKey !== idempotencyKey) {
    issues.push({ path: 'idempotency_key', message: 'expected the key of the header Idempotency-Key, got another' })
  }
  // A header is bytes, which other clients than the one that sent it would read as other characters.
  if (idempotencyKey !== undefined && !/^[ -~]*$/.test(idempotencyKey)) {
    issues.push({ path: 'idempotency_key', message: 'expected ASCII in the header Idempotency-Key, got other characters' })
  }
  if (field(sent, 'delay_seconds') !== undefined && field(sent, 'available_at') !== undefined) {
    issues.push({ path: 'available_at', message: 'expected either delay_seconds or available_at, got both' })
  }
  return issues
}

/** The instant in UTC with at most six digits of a second, for Postgres reads neither all offsets nor all lengths. */
function storableInstant(text: string): string {
  const fraction = /\.\d{1,6}/.exec(text)?.[0] ?? ''
  return `${new Date(text).toISOString().slice(0, 19)}${fraction}Z`
}

/** W3C Trace Context, version 00 or one that is longer only in name; all-zero ids are invalid there. */
function isTraceparent(header: string | undefined): header is string {
  return /^(?!ff)[\da-f]{2}-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}$/.test(header ?? '')
}

function field(sent: unknown, name: string): unknown {
  return isObject(sent) ? sent[name] : undefined
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
