import { DatabaseError } from 'pg'

/** Neon's limit in either direction: 10 MiB. */
export const MAX_BYTES = 10 * 1024 * 1024

/** What the endpoint answers. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** The names of a Postgres error's fields, in the JSON and in `pg` alike. */
const FIELDS = [
  'code',
  'detail',
  'hint',
  'position',
  'internalPosition',
  'internalQuery',
  'severity',
  'where',
  'table',
  'column',
  'schema',
  'dataType',
  'constraint',
  'file',
  'line',
  'routine',
] as const

/** An answer with results. */
export function success(result: object, headers: Readonly<Record<string, string>> = {}): Answer {
  return { status: 200, headers, body: JSON.stringify(result) }
}

/** An answer without results. All fields are there, whether Postgres gave them or not; these two are never null. */
export function failure(status: number, message: string, error?: DatabaseError): Answer {
  const fields = Object.fromEntries(FIELDS.map((name) => [name, error?.[name] ?? null]))
  const body = { message, ...fields, code: error?.code ?? '', severity: error?.severity ?? '' }
  return { status, headers: {}, body: JSON.stringify(body) }
}

/** What Neon answers when a statement fails: always 400, with fields only where Postgres itself has answered. */
export function statementFailure(error: unknown): Answer {
  return error instanceof DatabaseError ? failure(400, error.message, error) : failure(400, String(error))
}

/** What it answers when it cannot connect: a wrong password is the user's fault, all else the server's. */
export function connectFailure(error: unknown): Answer {
  if (!(error instanceof DatabaseError)) return failure(500, String(error))
  return error.code?.startsWith('28') === true
    ? failure(400, error.message)
    : failure(500, error.message, error)
}
