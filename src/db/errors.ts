/**
 * What an error says about the statement:
 * - `definite`: it did not take effect, and the same statement would fail again.
 * - `transient`: it did not take effect; repeating it may succeed.
 * - `ambiguous`: it may have taken effect. Only a repetition that is safe either way may follow.
 */
export type ErrorKind = 'definite' | 'transient' | 'ambiguous'

/** An error of the database or of the way to it. `code` is the SQLSTATE, where there is one. */
export class DatabaseError extends Error {
  override readonly name = 'DatabaseError'
  readonly kind: ErrorKind
  readonly code: string | undefined
  readonly constraint: string | undefined

  constructor(
    message: string,
    fields: { kind: ErrorKind; code?: string; constraint?: string; cause?: unknown },
  ) {
    super(message, { cause: fields.cause })
    this.kind = fields.kind
    this.code = fields.code
    this.constraint = fields.constraint
  }
}

/** SQLSTATEs that this code names (PostgreSQL manual, appendix A). */
export const SQLSTATE = {
  lockNotAvailable: '55P03',
  uniqueViolation: '23505',
  undefinedTable: '42P01',
  undefinedFunction: '42883',
  invalidSchemaName: '3F000',
} as const

/** Serialization failure, deadlock, lock timeout, too many connections: nothing happened, try again. */
const TRANSIENT = new Set(['40001', '40P01', '55P03', '53300', '53400'])

/** The server went away in mid-statement: it may have committed. Class 08 is added to these. */
const CUT_OFF = new Set(['57P01', '57P02', '57P03'])

/** Codes that say, while connecting, that the credentials or the database are wrong: no use in repeating. */
const REFUSED = /^(28|3D|42)/

/** Refusals without a SQLSTATE: of wrong credentials by Neon's proxy, of one more request by Workers. */
const REFUSED_OVER_HTTP = /^password authentication failed|too many subrequests/i

/** Turns what a driver threw while it ran a statement into a {@link DatabaseError}. */
export function statementError(error: unknown): DatabaseError {
  const code = sqlstate(error)
  return wrap(
    error,
    code === undefined || isCutOff(code) ? 'ambiguous' : TRANSIENT.has(code) ? 'transient' : 'definite',
  )
}

/** Turns what a driver threw before it sent the statement into a {@link DatabaseError}. */
export function connectError(error: unknown): DatabaseError {
  const code = sqlstate(error)
  return wrap(error, code !== undefined && REFUSED.test(code) ? 'definite' : 'transient')
}

/**
 * Turns what Neon's HTTP driver threw into a {@link DatabaseError}. A SQLSTATE decides as it does over TCP. Without
 * one only a refusal says that nothing has run: a 5xx, an answer over the size limit (507), a connection that was
 * cut and "Error connecting to database" can all follow a commit.
 */
export function neonError(error: unknown): DatabaseError {
  const [, status, body = ''] = /^Server error \(HTTP status (\d{3})\): (.*)$/s.exec(messageOf(error)) ?? []
  if (status !== undefined) return statusError(Number(status), body, error)
  const refused = sqlstate(error) === undefined && REFUSED_OVER_HTTP.test(messageOf(error))
  return refused ? wrap(error, 'definite') : statementError(error)
}

/** What a status other than 200 and 400 says. The driver puts the body, which may hold a SQLSTATE, into its message. */
function statusError(status: number, body: string, cause: unknown): DatabaseError {
  const fields = parsed(body)
  if (sqlstate(fields) !== undefined) return statementError(fields)
  // A 413 is refused before it is run. A 408 leaves open what became of the request.
  const refused = status > 400 && status < 500 && status !== 408
  return new DatabaseError(
    `the endpoint answered ${status}: ${(field(fields, 'message') ?? body).slice(0, 200)}`,
    { kind: status === 429 ? 'transient' : refused ? 'definite' : 'ambiguous', cause },
  )
}

/** Whether the schema `tidegate` is missing or older than this code. */
export function isSchemaMissing(error: unknown): boolean {
  return (
    error instanceof DatabaseError &&
    (error.code === SQLSTATE.undefinedTable ||
      error.code === SQLSTATE.undefinedFunction ||
      error.code === SQLSTATE.invalidSchemaName)
  )
}

function isCutOff(code: string): boolean {
  return CUT_OFF.has(code) || code.startsWith('08')
}

function wrap(error: unknown, kind: ErrorKind): DatabaseError {
  if (error instanceof DatabaseError) return error
  const code = sqlstate(error)
  const constraint = field(error, 'constraint')
  return new DatabaseError(messageOf(error), {
    kind,
    cause: error,
    ...(code === undefined ? {} : { code }),
    ...(constraint === undefined ? {} : { constraint }),
  })
}

function messageOf(error: unknown): string {
  return field(error, 'message') ?? String(error)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The SQLSTATE of a server's error. Node's own codes (`ECONNRESET`, `ETIMEDOUT`) are not of its form or class. */
function sqlstate(error: unknown): string | undefined {
  const code = field(error, 'code')
  return code !== undefined && /^[0-9A-Z]{5}$/.test(code) && field(error, 'severity') !== undefined
    ? code
    : undefined
}

function field(error: unknown, name: string): string | undefined {
  const value: unknown = typeof error === 'object' && error !== null ? Reflect.get(error, name) : undefined
  return typeof value === 'string' ? value : undefined
}
