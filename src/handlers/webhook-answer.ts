import { PermanentError, RetryAfterError } from '../errors.ts'
import type { WebhookTarget } from './webhook-target.ts'

/** No `Retry-After` delays a webhook longer than this. */
const MAX_RETRY_AFTER_MS = 86_400_000

/**
 * The error that an answer other than 2xx amounts to. Its message has the target's origin, the status and the
 * beginning of the body. Never rejects: the status decides, whatever becomes of the body.
 */
export async function answerError(
  response: Response,
  target: WebhookTarget,
  now: () => number,
): Promise<Error> {
  const { origin } = new URL(target.url)
  if (isRedirect(response)) {
    await discard(response)
    return new PermanentError(`${origin} answered ${response.status}, and redirects are not followed`)
  }
  const body = withoutSecrets(await readStart(response), target)
    .trim()
    .slice(0, MAX_BODY_LENGTH)
  const message = `${origin} answered ${response.status}${body === '' ? '' : `: ${body}`}`
  if (!isWorthRetrying(response.status)) return new PermanentError(message)
  const retryAfterMs = readRetryAfter(response.headers.get('retry-after'), now)
  return retryAfterMs === undefined ? new Error(message) : new RetryAfterError(message, { retryAfterMs })
}

/** Gives up the body of a response, so that its connection is free again. Never rejects. */
export async function discard(response: Response): Promise<void> {
  await response.body?.cancel().catch(() => undefined)
}

/** What is read of a body; more than is shown, for a body that is read to its end keeps its connection. */
const MAX_BODY_BYTES = 65_536

/** What is shown of a body. */
const MAX_BODY_LENGTH = 500

/** Times out, in conflict, too early, too many requests. */
const WORTH_RETRYING: readonly number[] = [408, 409, 425, 429]

function isWorthRetrying(status: number): boolean {
  return status >= 500 || WORTH_RETRYING.includes(status)
}

// A runtime that follows the fetch standard to the letter hides the redirect's status.
function isRedirect(response: Response): boolean {
  return response.type === 'opaqueredirect' || (response.status >= 300 && response.status < 400)
}

async function readStart(response: Response): Promise<string> {
  const reader = response.body?.getReader()
  if (reader === undefined) return ''
  const decoder = new TextDecoder()
  let text = ''
  let bytes = 0
  try {
    while (bytes < MAX_BODY_BYTES) {
      const { done, value } = await reader.read()
      if (done) break
      bytes += value.byteLength
      text += decoder.decode(value, { stream: true })
    }
  } catch {
    // Cut off or aborted: what has come is enough.
  }
  await reader.cancel().catch(() => undefined)
  return text
}

/** Receivers like to echo the request: `Cannot POST /hooks/<token>`. Short values would only spoil the text. */
function withoutSecrets(text: string, target: WebhookTarget): string {
  const url = new URL(target.url)
  const headerWords = Object.values(target.headers).flatMap((value) => value.split(/\s+/))
  const secrets = [
    url.search,
    url.pathname,
    ...url.searchParams.values(),
    ...headerWords,
    target.secret ?? '',
  ]
  return secrets
    .filter(({ length }) => length >= 8)
    .reduce((left, secret) => left.replaceAll(secret, '[…]'), text)
}

/** Milliseconds of a `Retry-After` (RFC 9110, 10.2.3): seconds or a date. Undefined when it is neither. */
function readRetryAfter(value: string | null, now: () => number): number | undefined {
  if (value === null) return undefined
  const waitMs = /^\d+$/.test(value) ? Number(value) * 1_000 : httpDateMs(value) - now()
  return Number.isNaN(waitMs) ? undefined : Math.min(Math.max(waitMs, 0), MAX_RETRY_AFTER_MS)
}

/** Any of the three forms of RFC 9110, 5.6.7; NaN otherwise. `Date.parse` alone takes almost anything. */
function httpDateMs(value: string): number {
  if (!/^[A-Z][a-z]+,? .*\d\d:\d\d:\d\d/.test(value)) return Number.NaN
  return Date.parse(value.endsWith(' GMT') ? value : `${value} GMT`)
}
