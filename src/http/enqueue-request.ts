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
  const body = isObject(sent) ? withHeaderKey(sent, headers.idempotencyKey) : undefined
  const parsed = ENQUEUE_BODY.safeParse(body ?? sent)
  const job = typeof body?.type === 'string' ? registry.get(body.type) : undefined
  const isThere = body?.payload !== undefined && body.payload !== null
  const payload = isThere ? await readPayload(body.payload, job) : NO_PAYLOAD
  const issues = [...(parsed.error ? issuesOf(parsed.error) : []), ...conflicts(body, headers), ...payload.issues]
  if (!parsed.success || issues.length > 0) throw new InvalidInput(issues)
  const { type, idempotency_key, priority, delay_seconds, available_at, max_attempts } = parsed.data
  // 0 is the ancestor's word for the default.
  const maxAttempts = max_attempts === 0 ? undefined : max_attempts
  return {
    type,
    payload: payload.text,
    idempotencyKey: idempotency_key,
    known: job !== undefined,
    ...(priority !== undefined && { priority }),
    ...(delay_seconds !== undefined && { delayMs: Math.round(delay_seconds * 1_000) }),
    ...(available_at !== undefined && { availableAt: storableInstant(available_at) }),
    ...maxAttemptsOf(maxAttempts ?? job?.maxAttempts),
    ...(isTraceparent(headers.traceparent) && { traceparent: headers.traceparent }),
  }
}
