import { neon, neonConfig, type NeonQueryFunction } from '@neondatabase/serverless'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'

import { createDatabase, type TestDatabase } from '../support/database.ts'
import { startNeonEndpoint, type NeonEndpoint } from '../support/neon-endpoint.ts'

// The endpoint that our tests run over, spoken to by Neon's own client and by hand: what it gets wrong, they miss.

let db: TestDatabase
let endpoint: NeonEndpoint
let sql: NeonQueryFunction<false, false>

beforeAll(async () => {
  db = await createDatabase()
  endpoint = await startNeonEndpoint({ server: inject('postgres').url })
  neonConfig.fetchEndpoint = endpoint.url
  // Its host is the one in the header; the server behind the endpoint is ours.
  const url = new URL(db.url)
  url.host = 'ep-blue-1.eu-central-1.aws.neon.tech:5432'
  sql = neon(url.href)
})
afterAll(async () => {
  await endpoint[Symbol.asyncDispose]()
  await db.close()
})

const post = async (body: unknown, headers: Record<string, string> = {}) => {
  const response = await fetch(endpoint.url, {
    method: 'POST',
    headers: { 'neon-connection-string': db.url, ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  return { status: response.status, headers: response.headers, body: (await response.json()) as unknown }
}

test('it takes tagged templates, array mode and full results', async () => {
  await expect(sql`select ${1}::integer as a, ${null}::text as b`).resolves.toEqual([{ a: 1, b: null }])
  const options = { arrayMode: true, fullResults: true } as const
  await expect(sql.query('select 1 as a union all select 2', [], options)).resolves.toMatchObject({
    rows: [[1], [2]],
    fields: [{ name: 'a', dataTypeID: 23, format: 'text' }],
    command: 'SELECT',
    rowCount: 2,
    rowAsArray: true,
  })
})

test('raw text output is text for every value; other output is what JSON can say', async () => {
  const query = "select 1 as a, true as b, 1.5::float8 as c, 2::bigint as d, null as e, '[1]'::jsonb as f"
  const raw = await post({ query }, { 'neon-raw-text-output': 'true', 'neon-array-mode': 'true' })
  expect(raw.body).toMatchObject({ rows: [['1', 't', '1.5', '2', null, '[1]']], rowAsArray: true })
  const { body } = await post({ query })
  expect(body).toMatchObject({
    rows: [{ a: 1, b: true, c: 1.5, d: '2', e: null, f: [1] }],
    rowAsArray: false,
  })
})

test('parameters travel as text, whatever JSON they come in', async () => {
  const query = 'select $1::integer as a, $2::boolean as b, $3::json as c, $4::integer[] as d, $5::text as e'
  const { body } = await post({ query, params: [7, true, { x: 1 }, [1, 2], null] })
  expect(body).toMatchObject({ rows: [{ a: 7, b: true, c: { x: 1 }, d: '{1,2}', e: null }] })
})

test('a batch is one transaction of the isolation that was asked for', async () => {
  const setting = (name: string) => sql`select current_setting(${name}) as value`
  const answers = await sql.transaction(
    ['transaction_isolation', 'transaction_read_only', 'transaction_deferrable'].map(setting),
    { isolationLevel: 'Serializable', readOnly: true, deferrable: true },
  )
  expect(answers).toEqual([[{ value: 'serializable' }], [{ value: 'on' }], [{ value: 'on' }]])
  const insert = sql`insert into tidegate.counters (name, type, label, value) values ('batch', '', '', 1)`
  await expect(sql.transaction([insert, sql`select 1 / 0`])).rejects.toMatchObject({ code: '22012' })
  await expect(db.query("select from tidegate.counters where name = 'batch'")).resolves.toEqual([])
  await sql.transaction([insert])
  await expect(db.query("select from tidegate.counters where name = 'batch'")).resolves.toHaveLength(1)
})

test('an isolation level that it does not know is refused', async () => {
  const queries = [{ query: 'select 1' }]
  await expect(post({ queries }, { 'neon-batch-isolation-level': 'Chaos' })).resolves.toMatchObject({
    status: 400,
    body: { message: 'invalid isolation level' },
  })
})

test('an error has every field that Postgres gave it', async () => {
  const { status, body } = await post({
    query: "insert into tidegate.counters (name, type, label) values ('a', 'b', 'c')",
  })
  expect(status).toBe(400)
  expect(body).toEqual({
    message: 'null value in column "value" of relation "counters" violates not-null constraint',
    severity: 'ERROR',
    code: '23502',
    detail: 'Failing row contains (a, b, c, null).',
    hint: null,
    position: null,
    internalPosition: null,
    internalQuery: null,
    where: null,
    schema: 'tidegate',
    table: 'counters',
    column: 'value',
    dataType: null,
    constraint: null,
    file: 'execMain.c',
    line: expect.stringMatching(/^\d+$/) as string,
    routine: expect.any(String) as string,
  })
})

test.each([
  ['two statements', { query: 'select 1; select 2' }, { code: '42601' }],
  ['text that is no JSON', '{', { message: 'could not parse the HTTP request body' }],
  ['a query without text', { params: [] }, { message: 'could not parse the HTTP request body' }],
])('it refuses %s', async (_what, body, answer) => {
  await expect(post(body)).resolves.toMatchObject({ status: 400, body: answer })
})

test('a session that is left inside a transaction serves nobody else', async () => {
  await post({ query: 'begin' })
  await post({ query: "insert into tidegate.counters (name, type, label, value) values ('free', '', '', 1)" })
  await expect(db.query("select from tidegate.counters where name = 'free'")).resolves.toHaveLength(1)
})

test('its limits are 10 MiB for a request and for an answer', async () => {
  const room = 10 * 1024 * 1024 - JSON.stringify({ query: 'select 1', params: [''] }).length
  const padded = (bytes: number) => post({ query: 'select 1', params: ['x'.repeat(bytes)] })
  await expect(padded(room + 1)).resolves.toMatchObject({ status: 413 })
  // At the limit it is Postgres that speaks: there is no $1.
  await expect(padded(room)).resolves.toMatchObject({ status: 400, body: { code: '08P01' } })
  const answered = await post({ query: "select repeat('x', 10 * 1024 * 1024) as a" })
  expect(answered).toMatchObject({
    status: 507,
    body: { message: 'response is too large (max is 10485760 bytes)' },
  })
})
