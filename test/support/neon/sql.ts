import type { IncomingHttpHeaders } from 'node:http'
import { types, type PoolClient, type QueryArrayConfig, type QueryArrayResult } from 'pg'
import { z } from 'zod'

import { connectFailure, failure, MAX_BYTES, statementFailure, success, type Answer } from './answer.ts'
import type { Backend } from './backend.ts'

const querySchema = z.object({
  query: z.string(),
  params: z.array(z.json()).default([]),
  arrayMode: z.boolean().optional(),
})
const payloadSchema = z.union([querySchema, z.object({ queries: z.array(querySchema) })])

type Query = z.output<typeof querySchema>

const ISOLATION_LEVELS: Readonly<Record<string, string>> = {
  ReadUncommitted: 'read uncommitted',
  ReadCommitted: 'read committed',
  RepeatableRead: 'repeatable read',
  Serializable: 'serializable',
}

/** Runs one request's statement, or its batch in one transaction. */
export async function answerSql(
  backend: Backend,
  headers: IncomingHttpHeaders,
  body: string,
): Promise<Answer> {
  const connectionString = headers['neon-connection-string']
  if (typeof connectionString !== 'string' || !URL.canParse(connectionString)) {
    return failure(400, 'invalid header: Neon-Connection-String')
  }
  const begin = beginText(headers)
  if (begin === undefined) return failure(400, 'invalid isolation level')
  const payload = payloadSchema.safeParse(parseJson(body))
  if (!payload.success) return failure(400, 'could not parse the HTTP request body')
  try {
    // Neon-Pool-Opt-In is a word of old drivers: today every request takes a session from the pool.
    const client = await backend.connect(connectionString)
    return 'query' in payload.data
      ? await runOne(client, payload.data, headers)
      : await runBatch(client, payload.data.queries, begin, headers)
  } catch (error) {
    return connectFailure(error)
  }
}

async function runOne(client: PoolClient, query: Query, headers: IncomingHttpHeaders): Promise<Answer> {
  try {
    const answer = limited(success(await run(client, query, headers)))
    // A session that is left inside a transaction is never given to another.
    client.release(client.getTransactionStatus() !== 'I')
    return answer
  } catch (error) {
    client.release(true)
    return statementFailure(error)
  }
}

async function runBatch(
  client: PoolClient,
  queries: readonly Query[],
  begin: string,
  headers: IncomingHttpHeaders,
): Promise<Answer> {
  try {
    await client.query(begin)
    const results: object[] = []
    for (const query of queries) results.push(await run(client, query, headers))
    const answer = limited(success({ results }, batchHeaders(headers)))
    await client.query(answer.status === 200 ? 'commit' : 'rollback')
    client.release()
    return answer
  } catch (error) {
    client.release(true)
    return statementFailure(error)
  }
}

// Neon gives up in the middle of the rows, when the statement may or may not commit: ours always does.
function limited(answer: Answer): Answer {
  return Buffer.byteLength(answer.body) <= MAX_BYTES
    ? answer
    : failure(507, `response is too large (max is ${MAX_BYTES} bytes)`)
}

async function run(client: PoolClient, query: Query, headers: IncomingHttpHeaders): Promise<object> {
  const asArrays = query.arrayMode ?? headers['neon-array-mode'] === 'true'
  const isRaw = headers['neon-raw-text-output'] === 'true'
  const config: QueryArrayConfig & { readonly queryMode: 'extended' } = {
    text: query.query,
    values: query.params.map(paramText),
    rowMode: 'array',
    // Refuses more than one statement, whether it has parameters or not.
    queryMode: 'extended',
    types: { getTypeParser: () => (text: string) => text },
  }
  const result: QueryArrayResult<(string | null)[]> = await client.query(config)
  const rows = result.rows.map((row) =>
    row.map((text, index) => (isRaw ? text : jsonOf(text, result.fields[index]?.dataTypeID))),
  )
  const names = result.fields.map(({ name }) => name)
  return {
    rowAsArray: asArrays,
    fields: result.fields.map((field) => ({ ...field, format: 'text' })),
    rows: asArrays ? rows : rows.map((row) => Object.fromEntries(row.map((value, n) => [names[n], value]))),
    command: result.command,
    rowCount: result.rowCount,
  }
}

// Arrays are left to pg, which writes them as Neon does.
function paramText(param: unknown): unknown {
  if (param === null || typeof param === 'string' || Array.isArray(param)) return param
  return JSON.stringify(param)
}

const number = (text: string) => (Number.isFinite(Number(text)) ? Number(text) : text)
const json = (text: string): unknown => JSON.parse(text)

// Output that is not raw: these types as JSON has them, all else as text. Neon converts arrays too, this does not.
const JSON_OF: Readonly<Record<number, (text: string) => unknown>> = {
  [types.builtins.BOOL]: (text) => text === 't',
  [types.builtins.INT2]: number,
  [types.builtins.INT4]: number,
  [types.builtins.FLOAT4]: number,
  [types.builtins.FLOAT8]: number,
  [types.builtins.JSON]: json,
  [types.builtins.JSONB]: json,
}

function jsonOf(text: string | null, type: number | undefined): unknown {
  if (text === null) return null
  const convert = type === undefined ? undefined : JSON_OF[type]
  return convert === undefined ? text : convert(text)
}

function beginText(headers: IncomingHttpHeaders): string | undefined {
  const level = headers['neon-batch-isolation-level']
  const isolation = ISOLATION_LEVELS[String(level)]
  if (level !== undefined && isolation === undefined) return undefined
  return [
    'begin',
    ...(isolation === undefined ? [] : [`isolation level ${isolation}`]),
    ...(headers['neon-batch-read-only'] === 'true' ? ['read only'] : []),
    ...(headers['neon-batch-deferrable'] === 'true' ? ['deferrable'] : []),
  ].join(' ')
}

// The proxy says which of them it took.
function batchHeaders(headers: IncomingHttpHeaders): Record<string, string> {
  const names = ['neon-batch-isolation-level', 'neon-batch-read-only', 'neon-batch-deferrable']
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = headers[name]
      return typeof value === 'string' && value !== 'false' ? [[name, value]] : []
    }),
  )
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
