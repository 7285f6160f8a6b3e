import type { ContentfulStatusCode } from 'hono/utils/http-status'

import { errorFields } from '../caller.ts'
import { DatabaseError, isSchemaMissing } from '../db/errors.ts'
import { InvalidInput, type Issue } from '../payload.ts'
import type { HttpContext } from './request.ts'

/** An answer that is an error. Handlers throw it; {@link answerError} renders it. */
export class HttpError extends Error {
  override readonly name = 'HttpError'
  readonly status: ContentfulStatusCode
  /** Snake case; part of the contract, as the message is not. */
  readonly code: string
  readonly issues: readonly Issue[] | undefined
  readonly headers: Readonly<Record<string, string>>

  constructor(status: ContentfulStatusCode, code: string, message: string, detail: Detail = {}) {
    super(message, { cause: detail.cause })
    this.status = status
    this.code = code
    this.issues = detail.issues
    this.headers = detail.headers ?? {}
  }
}

interface Detail {
  readonly issues?: readonly Issue[]
  readonly headers?: Readonly<Record<string, string>>
  readonly cause?: unknown
}

/**
 * Answers whatever a handler threw as `{ error, code, issues? }`. What is not the client's doing is logged under
 * the request's id; a stack never leaves the process.
 */
export function answerError(error: Error, c: HttpContext): Response {
  const { message, code, issues, status, headers } = httpErrorOf(error)
  if (status >= 500) logFailure(error instanceof HttpError ? error.cause : error, code, c)
  return c.json({ error: message, code, ...(issues === undefined ? {} : { issues }) }, status, headers)
}

/** The answer to a path that no route has. */
export function answerNotFound(c: HttpContext): Response {
  return answerError(new HttpError(404, 'not_found', `no route has the path ${c.req.path}`), c)
}

/** The answer to a path whose routes have other methods. */
export function answerMethodNotAllowed(c: HttpContext, methods: readonly string[]): Response {
  const allow = methods.join(', ')
  const message = `expected one of the methods ${allow}, got ${c.req.method}`
  return answerError(new HttpError(405, 'method_not_allowed', message, { headers: { Allow: allow } }), c)
}

function httpErrorOf(error: Error): HttpError {
  if (error instanceof HttpError) return error
  if (error instanceof InvalidInput) return invalidRequest(error)
  if (isSchemaMissing(error)) {
    const message = 'the database has no schema of this release: run `npm run migrate`'
    return new HttpError(503, 'schema_missing', message)
  }
  if (error instanceof DatabaseError && error.kind !== 'definite') {
    const headers = { 'Retry-After': '5' }
    return new HttpError(503, 'database_unavailable', 'the database is not available, try again', { headers })
  }
  return new HttpError(500, 'internal', 'something went wrong here; the log has it under this request id')
}

function invalidRequest({ issues }: InvalidInput): HttpError {
  const [first] = issues
  const where = first === undefined || first.path === '' ? '' : `${first.path}: `
  const others = issues.length > 1 ? ` (and ${issues.length - 1} more)` : ''
  const message = `${where}${first?.message ?? 'the request is not valid'}${others}`
  return new HttpError(400, 'invalid_request', message, { issues })
}

/** An answer without a cause was given on purpose and is no news. */
function logFailure(cause: unknown, answer: string, c: HttpContext): void {
  if (!(cause instanceof Error)) return
  const fields =
    cause instanceof DatabaseError ? errorFields(cause) : { error: cause.message, stack: cause.stack }
  c.get('log').error('request failed', { answer, ...fields })
}
