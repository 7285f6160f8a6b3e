import { InvalidInput, type Issue } from '../payload.ts'
import type { Registry } from '../registry.ts'
import type { EnqueueInput } from '../store/enqueue.ts'
import { ENQUEUE_BODY, storableInstant } from './enqueue-body.ts'
import { readPayload } from './enqueue-payload.ts'
import { issuesOf } from './input.ts'

/** What an enqueue sends beside its body. */
export interface EnqueueHeaders {
  /** `Idempotency-Key`, in place of the field or equal to it. */
  readonly idempotencyKey: string | undefined
  /** Kept when it is valid, left alone otherwise, as W3C Trace Context asks. */
  readonly traceparent: string | undefined
}

/**
 * Reads an enqueue from outside. Throws {@link InvalidInput} with everything that is wrong with it, the issues of
 * the type's own schema included. What is stored is the input of that schema, never its output.
 */
export async function readEnqueue(
  sent: unknown,
  headers: EnqueueHeaders,
  registry: Registry,
): Promise<EnqueueInput> {
  const body = isObject(sent) ? withHeaderKey(sent, headers.idempotencyKey) : {}
  const job = typeof body.type === 'string' ? registry.get(body.type) : undefined
  const parsed = ENQUEUE_BODY.safeParse(isObject(sent) ? body : sent)
  const payload = await readPayload(body.payload, job)
  const issues = [
    ...(parsed.error === undefined ? [] : issuesOf(parsed.error)),
    ...conflicts(body, headers),
    ...payload.issues,
  ]
  if (!parsed.success || issues.length > 0) throw new InvalidInput(issues)
  const { type, idempotency_key, priority, delay_seconds, available_at, max_attempts } = parsed.data
  // Not `??`: 0 is the default too.
  const maxAttempts = max_attempts || job?.maxAttempts
  return {
    type,
    payload: payload.text,
    idempotencyKey: idempotency_key,
    known: job !== undefined,
    ...(priority !== undefined && { priority }),
    ...(delay_seconds !== undefined && { delayMs: Math.round(delay_seconds * 1_000) }),
    ...(available_at !== undefined && { availableAt: storableInstant(available_at) }),
    ...(maxAttempts !== undefined && { maxAttempts }),
    ...(isTraceparent(headers.traceparent) && { traceparent: headers.traceparent }),
  }
}

type Body = Readonly<Record<string, unknown>>

function withHeaderKey(body: Body, key: string | undefined): Body {
  return key === undefined || body.idempotency_key !== undefined ? body : { ...body, idempotency_key: key }
}

/** What no single field is to blame for. */
function conflicts(body: Body, { idempotencyKey: key }: EnqueueHeaders): readonly Issue[] {
  const issues: Issue[] = []
  if (key !== undefined && body.idempotency_key !== key) {
    const message = 'expected the key of the header Idempotency-Key, got another'
    issues.push({ path: 'idempotency_key', message })
  }
  // Header bytes beyond ASCII would be read as other characters than the field's.
  if (key !== undefined && !/^[ -~]*$/.test(key)) {
    const message = 'expected ASCII in the header Idempotency-Key, got other characters; the field takes any'
    issues.push({ path: 'idempotency_key', message })
  }
  if (body.delay_seconds !== undefined && body.available_at !== undefined) {
    issues.push({ path: 'available_at', message: 'expected delay_seconds or available_at, got both' })
  }
  return issues
}

/** W3C Trace Context: a version but ff, and ids that are not all zero. */
function isTraceparent(header: string | undefined): header is string {
  return /^(?!ff)[\da-f]{2}-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}$/.test(header ?? '')
}

function isObject(value: unknown): value is Body {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
