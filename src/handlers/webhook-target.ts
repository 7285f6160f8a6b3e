import { z } from 'zod'

import { LIMITS } from '../core/job.ts'
import type { Issue } from '../payload.ts'

/** The form of a secret (https://www.standardwebhooks.com). */
export const SECRET_FORM = 'whsec_<base64 of 24 to 64 bytes>'

/** The secret that signs a webhook's requests, as Standard Webhooks writes it. */
export const webhookSecretSchema = text(SECRET_FORM, isSecret)

const shape = {
  /** Where to POST. A user and password do not belong here but in `headers`. */
  url: text('an http or https URL without user and password', isTargetUrl),
  /** Requests are signed with it; without one they are not signed. */
  secret: webhookSecretSchema.optional(),
  /** The longest that one attempt may take. */
  timeout_ms: wholeNumber(1, 900_000).default(10_000),
  /** Sent with each request. */
  headers: headerRecord().default({}),
  max_attempts: wholeNumber(1, LIMITS.maxAttempts).default(8),
  /** Seconds to wait after each failed attempt, plus a random 0–50 %. The last entry repeats. */
  backoff_seconds: secondsList().default([5, 300, 1_800, 7_200, 18_000, 36_000, 36_000]),
}

/** Where and how a webhook is delivered. Unknown fields are refused. No message shows a URL, header or secret. */
export const webhookTargetSchema = z.strictObject(shape, {
  error: (issue) =>
    issue.code === 'unrecognized_keys'
      ? `expected only ${Object.keys(shape).join(', ')}, got ${issue.keys.join(', ')}`
      : mismatch('an object')(issue),
})

/** A target as it is written: only `url` is needed. */
export type WebhookTargetInput = z.input<typeof webhookTargetSchema>

/** A target with its defaults. */
export type WebhookTarget = z.output<typeof webhookTargetSchema>

/** What is wrong with a target, the paths from `root`. */
export function targetIssues(error: z.ZodError, root: string): readonly Issue[] {
  return error.issues.map(({ path, message }) => ({ path: [root, ...path].map(String).join('.'), message }))
}

/** Says what was expected, and of what came only its kind: it may be secret. */
export function mismatch(expected: string): (issue: { readonly input?: unknown }) => string {
  return ({ input }) => `expected ${expected}, got ${kindOf(input)}`
}

function kindOf(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (value === '') return 'an empty text'
  if (value === null || typeof value === 'number' || typeof value === 'boolean') return String(value)
  if (Array.isArray(value)) return `a list of ${value.length}`
  return typeof value === 'string' ? 'another text' : 'an object'
}

function text(expected: string, holds: (value: string) => boolean) {
  const error = mismatch(expected)
  return z.string({ error }).refine(holds, { error })
}

function wholeNumber(least: number, most: number) {
  const error = mismatch(`a whole number from ${least} to ${most}`)
  return z
    .number({ error })
    .refine((value) => Number.isInteger(value) && value >= least && value <= most, { error })
}

function secondsList() {
  const least = 1
  const most = LIMITS.delaySeconds
  const error = mismatch(`a number of seconds from ${least} to ${most}`)
  const seconds = z.number({ error }).refine((value) => value >= least && value <= most, { error })
  const list = mismatch(`a list of 1 to ${LIMITS.maxAttempts} numbers of seconds`)
  return z
    .array(seconds, { error: list })
    .refine(({ length }) => length >= 1 && length <= LIMITS.maxAttempts, { error: list })
}

function headerRecord() {
  const name = z.string().refine((name) => HEADER_NAME.test(name) && !RESERVED_HEADER.test(name))
  const value = text('printable ASCII', (value) => /^[\t\x20-\x7e]*$/.test(value))
  return z.record(name, value, {
    error: (issue) =>
      issue.code === 'invalid_key'
        ? 'expected the name of a header that is neither set by the webhook itself nor the connection’s'
        : mismatch('an object of header names and texts')(issue),
  })
}

/** A `token` of RFC 9110. */
const HEADER_NAME = /^[\w!#$%&'*+.^`|~-]+$/

const RESERVED_HEADER =
  /^(?:webhook-.*|content-type|content-length|user-agent|traceparent|host|connection|keep-alive|proxy-connection|te|trailer|transfer-encoding|upgrade|expect)$/i

function isTargetUrl(text: string): boolean {
  const url = URL.parse(text)
  return url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === ''
}

function isSecret(text: string): boolean {
  const base64 = /^whsec_((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)$/.exec(text)?.[1]
  if (base64 === undefined) return false
  const bytes = atob(base64).length
  return bytes >= 24 && bytes <= 64
}
