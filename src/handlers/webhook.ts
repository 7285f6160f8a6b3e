import { VERSION } from '../version.ts'
import { Webhook } from 'standardwebhooks'
import { z } from 'zod'

import type { Json } from '../core/job.ts'
import { defineJob, type JobContext } from '../registry.ts'
import { answerError, discard } from './webhook-answer.ts'
import {
  targetIssues,
  webhookTargetSchema,
  type WebhookTarget,
  type WebhookTargetInput,
} from './webhook-target.ts'

/** What a webhook takes from its surroundings. */
export interface WebhookOptions {
  /** Defaults to the one of the run's context, whose requests are counted. */
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>
  /** Milliseconds since 1970, for signatures and for dates in `Retry-After`. Defaults to `Date.now`. */
  readonly now?: () => number
}

/**
 * Defines a job type that POSTs its payload, as JSON, to one target, signed by Standard Webhooks 1.0 if the
 * target has a secret. `webhook-id` is the job's id, the same at every attempt; timestamp and signature are
 * fresh at each.
 *
 * - 2xx completes the job, with `{ status }` as its result.
 * - 408, 409, 425, 429, 5xx and a receiver out of reach are retried, not before `Retry-After` (at most 24 h).
 * - Any other answer is a permanent failure, a redirect too: none is followed.
 *
 * Throws on a target that is not acceptable, with everything that is wrong with it.
 *
 * @example
 * const paid = webhookJob('invoice.paid', { url: 'https://example.com/hooks', secret: 'whsec_…' })
 */
export function webhookJob<const Type extends string>(
  type: Type,
  target: WebhookTargetInput,
  options: WebhookOptions = {},
) {
  const checked = checkTarget(type, target)
  const deliver = createDelivery(checked, options)
  return defineJob({
    type,
    payload: z.custom<Json>(),
    timeout: checked.timeout_ms,
    maxAttempts: checked.max_attempts,
    backoff: { delaysMs: checked.backoff_seconds.map((seconds) => seconds * 1_000) },
    run: (payload, context: JobContext) => deliver(JSON.stringify(payload), context),
  })
}

/** The release is told to receivers; a test holds it equal to package.json's. */
const USER_AGENT = `tidegate/${VERSION}`

function checkTarget(type: string, target: WebhookTargetInput): WebhookTarget {
  const checked = webhookTargetSchema.safeParse(target)
  if (checked.success) return checked.data
  const problems = targetIssues(checked.error, `webhook ${type}`).map(
    ({ path, message }) => `${path}: ${message}`,
  )
  throw new Error(problems.join('; '))
}

type Delivery = (body: string, context: JobContext) => Promise<{ status: number }>

function createDelivery(target: WebhookTarget, options: WebhookOptions): Delivery {
  const { now = () => Date.now() } = options
  const headersFor = createHeaders(target, now)
  return async (body, context) => {
    const headers = headersFor(body, context)
    // `redirect: 'error'` throws in workerd.
    const init: RequestInit = { method: 'POST', headers, body, redirect: 'manual', signal: context.signal }
    const { fetch = context.fetch } = options
    const response = await fetch(target.url, init).catch((error: unknown) => {
      throw unreachable(target, error, context.signal)
    })
    if (!response.ok) throw await answerError(response, target, now)
    await discard(response)
    return { status: response.status }
  }
}

function createHeaders(
  target: WebhookTarget,
  now: () => number,
): (body: string, context: JobContext) => Headers {
  const signer = target.secret === undefined ? undefined : new Webhook(target.secret)
  return (body, { id, traceparent }) => {
    const sentAt = new Date(now())
    const headers = new Headers(target.headers)
    headers.set('content-type', 'application/json')
    headers.set('user-agent', USER_AGENT)
    headers.set('webhook-id', id)
    headers.set('webhook-timestamp', String(Math.floor(sentAt.getTime() / 1_000)))
    if (signer !== undefined) headers.set('webhook-signature', signer.sign(id, sentAt, body))
    if (traceparent !== null) headers.set('traceparent', traceparent)
    return headers
  }
}

/** Names the origin alone: paths and queries of webhook URLs are often secret. */
function unreachable(target: WebhookTarget, error: unknown, signal: AbortSignal): Error {
  const { origin } = new URL(target.url)
  if (signal.aborted)
    return new Error(`${origin} did not answer before the run was stopped`, { cause: signal.reason })
  return new Error(`${origin} could not be reached: ${reasonOf(error)}`, { cause: error })
}

/** Node's fetch hides the reason in the cause; with several addresses that has a code and no message. */
function reasonOf(error: unknown): string {
  const { message, cause } = error instanceof Error ? error : new Error(String(error))
  if (!(cause instanceof Error)) return message
  if (cause.message !== '') return cause.message
  return 'code' in cause ? String(cause.code) : message
}
