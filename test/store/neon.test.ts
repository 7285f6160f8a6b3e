import { neonConfig } from '@neondatabase/serverless'
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest'

import { openNeon, type NeonOptions } from '../../src/db/neon.ts'
import { openPg } from '../../src/db/pg.ts'
import type { Database } from '../../src/db/sql.ts'
import { enqueue } from '../../src/store/enqueue.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { startNeonEndpoint, type NeonEndpoint } from '../support/neon-endpoint.ts'

let db: TestDatabase
let endpoint: NeonEndpoint
const opened: Database[] = []

beforeAll(async () => {
  db = await createDatabase()
  endpoint = await startNeonEndpoint({ server: inject('postgres').url })
})
afterEach(async () => {
  endpoint.failWith(() => undefined)
  await Promise.all(opened.splice(0).map((database) => database.close()))
})
afterAll(async () => {
  await endpoint[Symbol.asyncDispose]()
  await db.close()
})

function open(options: Partial<NeonOptions> = {}): Database {
  const database = openNeon({ url: db.url, endpoint: endpoint.url, ...options })
  opened.push(database)
  return database
}

const put = ({ sql }: Database, idempotencyKey: string) =>
  enqueue(sql, { type: 't', payload: '{}', idempotencyKey })
const stored = async (key: string) =>
  (await db.query('select from tidegate.jobs where idempotency_key = $1', [key])).length
const requestsDuring = async (work: () => Promise<unknown>) => {
  const before = endpoint.requests.length
  await work()
  return endpoint.requests.length - before
}

describe('the Neon driver', () => {
  it('sends one request for one operation, and counts it', async () => {
    const database = open()
    await expect(requestsDuring(() => put(database, 'one'))).resolves.toBe(1)
    expect(database.requests()).toBe(1)
    const { headers, body } = endpoint.requests.at(-1) ?? { headers: {}, body: '' }
    expect(headers).toMatchObject({ 'neon-raw-text-output': 'true', 'neon-array-mode': 'true' })
    expect(JSON.parse(body)).toMatchObject({
      params: ['t', '{}', 'one', null, null, null, null, null, 'true'],
    })
  })

  it('sends one request however often its answer is awaited', async () => {
    const { sql } = open()
    const sent = await requestsDuring(async () => {
      const answer = sql('select 1 as one', [])
      await expect(Promise.all([answer, answer, answer.then((rows) => rows)])).resolves.toHaveLength(3)
      await answer
    })
    expect(sent).toBe(1)
  })

  it('hands rows over as pg does', async () => {
    const text = `
      select 1::integer as a, 2::bigint as b, true as c, null as d, 'ü"\\' as e, '{"f": [1]}'::json as f,
        1.5::float8 as g, '{1,2}'::integer[] as h, '2030-01-02T03:04:05Z'::timestamptz as i, $1::text as j,
        $2::integer as k, $3::boolean as l, $4::text as m`
    const params = ["it's", 7, false, null]
    const pg = openPg({ url: db.url })
    opened.push(pg)
    await expect(open().sql(text, params)).resolves.toEqual(await pg.sql(text, params))
  })

  it('keeps the SQLSTATE and the constraint of an error', async () => {
    await expect(put(open(), '')).rejects.toMatchObject({
      name: 'DatabaseError',
      kind: 'definite',
      code: '23514',
      constraint: 'jobs_idempotency_key_check',
    })
  })

  it('runs one statement only', async () => {
    await expect(open().sql('select 1; select 2', [])).rejects.toMatchObject({
      kind: 'definite',
      code: '42601',
    })
  })

  it.each([
    ['a wrong password', { password: 'wrong' }, undefined],
    ['a database that is not there', { pathname: '/nowhere' }, '3D000'],
  ])('is told of %s as a definite error', async (_what, changed, code) => {
    const url = Object.assign(new URL(db.url), changed).href
    await expect(open({ url }).sql('select 1', [])).rejects.toMatchObject({ kind: 'definite', code })
  })
})

describe('an answer that does not come', () => {
  it('is ambiguous when it is lost after the commit, and a repeated key finds its job', async () => {
    const database = open()
    endpoint.failWith((number) => (number === 1 ? { at: 'commit', what: 'close' } : undefined))
    const sent = await requestsDuring(() =>
      expect(put(database, 'lost')).rejects.toMatchObject({ kind: 'ambiguous', code: undefined }),
    )
    expect(sent).toBe(1)
    await expect(stored('lost')).resolves.toBe(1)
    await expect(put(database, 'lost')).resolves.toMatchObject({ outcome: 'replayed' })
  })

  it('is ambiguous when a kept-alive connection is closed just then, and nothing sends it again', async () => {
    const database = open()
    await database.sql('select 1', [])
    endpoint.failWith((number) => (number === 1 ? { at: 'arrival', what: 'close' } : undefined))
    const sent = await requestsDuring(() =>
      expect(put(database, 'closed')).rejects.toMatchObject({ kind: 'ambiguous' }),
    )
    expect(sent).toBe(1)
    await expect(stored('closed')).resolves.toBe(0)
    await expect(put(database, 'closed')).resolves.toMatchObject({ outcome: 'created' })
  })

  it.each([
    [500, 'commit', 'ambiguous', 1],
    [502, 'commit', 'ambiguous', 1],
    [503, 'arrival', 'ambiguous', 0],
    [400, 'commit', 'ambiguous', 1],
    [429, 'arrival', 'transient', 0],
    [404, 'arrival', 'definite', 0],
  ] as const)('with status %i on %s is %s', async (status, at, kind, rows) => {
    const key = `status-${status}`
    endpoint.failWith(() => ({ at, what: status }))
    await expect(put(open(), key)).rejects.toMatchObject({ kind, code: undefined })
    await expect(stored(key)).resolves.toBe(rows)
  })

  it('is definite for a request over 10 MiB, which is not run', async () => {
    const text = 'insert into tidegate.counters (name, type, label, value) values ($1, $2, $3, 1)'
    const big = 'x'.repeat(10 * 1024 * 1024)
    await expect(open().sql(text, ['big', '', big])).rejects.toMatchObject({
      kind: 'definite',
      message: 'the endpoint answered 413: request is too large (max is 10485760 bytes)',
    })
    await expect(db.query("select from tidegate.counters where name = 'big'")).resolves.toEqual([])
  })

  it('is ambiguous for an answer over 10 MiB, for its statement may have committed', async () => {
    const text = `
      insert into tidegate.counters (name, type, label, value) values ('wide', '', '', 1)
      returning repeat('x', 10 * 1024 * 1024) as answer`
    await expect(open().sql(text, [])).rejects.toMatchObject({ kind: 'ambiguous' })
    await expect(db.query("select from tidegate.counters where name = 'wide'")).resolves.toHaveLength(1)
  })

  it('is definite when Workers refuse one more subrequest, for they would refuse the next one too', async () => {
    const refuse = () => Promise.reject(new Error('Too many subrequests by single Worker invocation.'))
    await expect(open({ fetch: refuse }).sql('select 1', [])).rejects.toMatchObject({ kind: 'definite' })
  })

  it('is ambiguous when nobody listens', async () => {
    const closed = await startNeonEndpoint({ server: db.url })
    await closed[Symbol.asyncDispose]()
    await expect(open({ endpoint: closed.url }).sql('select 1', [])).rejects.toMatchObject({
      kind: 'ambiguous',
    })
  })

  it('is ambiguous when its time is up, and the next call has a signal of its own', async () => {
    const held = Promise.withResolvers<void>()
    const database = open({ timeoutMs: 400 })
    endpoint.failWith((number) => (number === 1 ? { at: 'arrival', what: held.promise } : undefined))
    await expect(put(database, 'late')).rejects.toMatchObject({ kind: 'ambiguous' })
    held.resolve()
    await expect(open().sql('select 1 as one', [])).resolves.toEqual([{ one: 1 }])
    await expect(database.sql('select 1 as one', [])).resolves.toEqual([{ one: 1 }])
  })

  it('ends with the database that asked for it, whose later calls are refused', async () => {
    const held = Promise.withResolvers<void>()
    const arrived = Promise.withResolvers<void>()
    endpoint.failWith(() => {
      arrived.resolve()
      return { at: 'arrival', what: held.promise }
    })
    const database = open()
    const answer = database.sql('select 1', []).catch((error: unknown) => error)
    await arrived.promise
    await database.close()
    await expect(answer).resolves.toMatchObject({ kind: 'ambiguous' })
    held.resolve()
    await expect(requestsDuring(() => database.sql('select 1', []).catch(() => 0))).resolves.toBe(0)
    await expect(database.sql('select 1', [])).rejects.toMatchObject({ kind: 'definite' })
  })
})

describe('the endpoint of a database', () => {
  it('is its own: two at once, and the setting of the package untouched', async () => {
    const own = { fetchFunction: neonConfig.fetchFunction as unknown, endpoint: neonConfig.fetchEndpoint }
    await using other = await startNeonEndpoint({ server: db.url })
    const [ours, theirs] = [open(), open({ endpoint: other.url })]
    const numbers = Array.from({ length: 20 }, (_, n) => n)
    const ask = (n: number) => (n % 2 === 0 ? ours : theirs).sql('select $1::integer as n', [n])
    const sent = await requestsDuring(() => Promise.all(numbers.map(ask)))
    expect([sent, other.requests.length]).toEqual([10, 10])
    expect({
      fetchFunction: neonConfig.fetchFunction as unknown,
      endpoint: neonConfig.fetchEndpoint,
    }).toEqual(own)
  })

  it("is Neon's for the host when none is given", async () => {
    const urls: string[] = []
    const { sql } = open({
      url: 'postgres://ann:secret@ep-blue-1.eu-central-1.aws.neon.tech/shop',
      endpoint: undefined,
      fetch: (input) => {
        urls.push(new Request(input).url)
        return Promise.resolve(Response.json({ fields: [], rows: [] }))
      },
    })
    await expect(sql('select 1', [])).resolves.toEqual([])
    expect(urls).toEqual(['https://api.eu-central-1.aws.neon.tech/sql'])
  })
})
