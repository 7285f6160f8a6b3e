import type { StandardSchemaV1 } from '@standard-schema/spec'
import { afterAll, beforeAll, expect, test } from 'vitest'

import { createRegistry, defineJob } from '../../src/registry.ts'
import { as, json, openApi, type Api } from '../support/api.ts'

let api: Api
const kicks: unknown[] = []

beforeAll(async () => {
  api = await openApi(() => ({ onEnqueued: (waitUntil) => kicks.push(waitUntil) }))
})
afterAll(() => api.close())

const job = (key: string, fields: object = {}): object => ({
  type: 'test.echo',
  payload: { n: 1 },
  idempotency_key: key,
  ...fields,
})

test('the ancestor’s own examples go on working, with a token added', async () => {
  const first = await api.post(
    '/jobs',
    '{"type":"test.echo","payload":{"msg":"hello"},"idempotency_key":"demo-1"}',
  )
  expect(first.status).toBe(201)
  const created = await json(first)
  const again = await api.post(
    '/jobs',
    '{"type":"test.echo","payload":{"msg":"hello"},"idempotency_key":"demo-1"}',
  )
  expect(again.status).toBe(200)
  expect(await json(again)).toEqual(created)
  const noType = await api.post('/jobs', '{"type":"","payload":{},"idempotency_key":"demo-bad"}')
  expect(noType.status).toBe(400)
  const attempts = '{"type":"test.echo","payload":{},"idempotency_key":"demo-bad-2","max_attempts":-1}'
  expect((await api.post('/jobs', attempts)).status).toBe(400)
})

test('a new job is answered with the ancestor’s fields and where to find it', async () => {
  const response = await api.post('/jobs', job('fields', { priority: 7 }))
  expect(response.status).toBe(201)
  const created = await json(response)
  const instant: unknown = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/)
  expect(created).toEqual({
    id: expect.stringMatching(/^[\da-f-]{36}$/) as unknown,
    idempotency_key: 'fields',
    type: 'test.echo',
    payload: { n: 1 },
    status: 'pending',
    priority: 7,
    attempts: 0,
    max_attempts: 5,
    available_at: instant,
    created_at: instant,
    updated_at: instant,
  })
  expect(response.headers.get('Location')).toBe(`/jobs/${String(created.id)}`)
  expect(response.headers.get('Content-Type')).toBe('application/json')
  expect(response.headers.get('Idempotent-Replayed')).toBeNull()
})

test('a repeat is marked, whatever else than type and payload it says', async () => {
  const created = await json(api.post('/jobs', job('repeat')))
  const response = await api.post('/jobs', job('repeat', { priority: 9, delay_seconds: 60 }))
  expect(response.status).toBe(200)
  expect(response.headers.get('Idempotent-Replayed')).toBe('true')
  expect(response.headers.get('Location')).toBeNull()
  expect(await json(response)).toEqual(created)
})

test('key order and white space make no other payload', async () => {
  await api.post('/jobs', job('order', { payload: { a: 1, b: [1, 2] } }))
  const again = '{"idempotency_key":"order", "payload":{ "b":[1,2],"a":1 }, "type":"test.echo"}'
  expect((await api.post('/jobs', again)).status).toBe(200)
})

test.each([
  ['payload', { payload: { n: 2 } }],
  ['type', { type: 'list', payload: { items: [] } }],
])('a key that is used again with another %s is refused and names the job', async (what, fields) => {
  const { id } = await json(api.post('/jobs', job(`reused-${what}`)))
  const response = await api.post('/jobs', job(`reused-${what}`, fields))
  expect(response.status).toBe(422)
  expect(await json(response)).toEqual({
    code: 'idempotency_key_reused',
    error: `the idempotency key belongs to the job ${String(id)}, which has another type or payload`,
  })
})

test('fifty requests at once with one key make one job', async () => {
  const responses = await Promise.all(Array.from({ length: 50 }, () => api.post('/jobs', job('fifty'))))
  const statuses = responses.map(({ status }) => status)
  expect(statuses.filter((status) => status === 201)).toHaveLength(1)
  expect(statuses.filter((status) => status === 200)).toHaveLength(49)
  const ids = new Set(await Promise.all(responses.map(async (response) => (await json(response)).id)))
  expect(ids.size).toBe(1)
  const rows = await api.db.query(`select id from tidegate.jobs where idempotency_key = 'fifty'`)
  expect(rows).toEqual([{ id: [...ids][0] }])
})

test('the key may come as a header, alone or equal to the field', async () => {
  const { idempotency_key: _, ...keyless } = job('') as Record<string, unknown>
  const alone = await api.post('/jobs', keyless, { 'Idempotency-Key': 'by header' })
  expect(alone.status).toBe(201)
  expect(await json(alone)).toMatchObject({ idempotency_key: 'by header' })
  const both = await api.post('/jobs', job('by header'), { 'Idempotency-Key': 'by header' })
  expect(both.status).toBe(200)
})

test('a type of this root is validated by its schema, and its input is what is stored and compared', async () => {
  const welcome = { type: 'mail.welcome', payload: { to: 'ada@example.org' }, idempotency_key: 'welcome' }
  const created = await json(api.post('/jobs', welcome))
  expect(created.payload).toEqual({ to: 'ada@example.org' })
  expect((await api.post('/jobs', welcome)).status).toBe(200)
  const refused = await api.post('/jobs', { ...welcome, payload: { to: 'nobody' } })
  expect(refused.status).toBe(400)
  expect(await json(refused)).toMatchObject({
    code: 'invalid_request',
    issues: [{ path: 'payload.to', message: 'Invalid email address' }],
  })
})

test('every issue of a payload is listed with its path', async () => {
  const response = await api.post(
    '/jobs',
    job('issues', { type: 'list', payload: { items: [1, 'two', 3, null] } }),
  )
  expect(response.status).toBe(400)
  const { issues } = await json(response)
  expect(issues).toMatchObject([{ path: 'payload.items.1' }, { path: 'payload.items.3' }])
})

test('no answer lists more than a hundred issues of a payload', async () => {
  const items = Array.from({ length: 5_000 }, () => 'x')
  const { issues } = await json(api.post('/jobs', job('many', { type: 'list', payload: { items } })))
  expect(issues).toHaveLength(100)
})

test('a schema is awaited, and what it throws or changes reaches nobody', async () => {
  const schema = (validate: (value: unknown) => never): StandardSchemaV1 => ({
    '~standard': { version: 1, vendor: 'test', validate },
  })
  const odd = await openApi(() => ({
    registry: createRegistry([
      defineJob({
        type: 'changes',
        payload: schema(
          (value) => Promise.resolve({ value: Object.assign(value as object, { b: 2 }) }) as never,
        ),
        run: () => undefined,
      }),
      defineJob({
        type: 'throws',
        payload: schema(() => {
          // eslint-disable-next-line typescript/only-throw-error -- schemas are other people's code
          throw 'a detail'
        }),
        run: () => undefined,
      }),
    ]),
  }))
  expect(await odd.enqueue({ type: 'changes', payload: { a: 1 } })).toHaveProperty('payload', { a: 1 })
  const response = await odd.post('/jobs', job('throws', { type: 'throws' }))
  expect(response.status).toBe(500)
  expect(await json(response)).toMatchObject({ code: 'internal' })
  await odd.close()
})

test.each([
  [{}, 3],
  [{ max_attempts: 0 }, 3],
  [{ max_attempts: 8 }, 8],
])('%j has its attempts from the request, else from its type', async (fields, attempts) => {
  const list = { type: 'list', payload: { items: [] }, ...fields }
  expect(await api.enqueue(list)).toMatchObject({ max_attempts: attempts })
})

test('a type of another root is accepted without its schema, with its attempts', async () => {
  await api.db.query(`
    insert into tidegate.types (type, timeout_ms, max_attempts, registered_at, changed_at)
    values ('elsewhere', 1000, 9, now(), now())`)
  expect(await api.enqueue({ type: 'elsewhere', payload: 'anything' })).toMatchObject({ max_attempts: 9 })
})

test('a type that nobody has is refused with the names of those that there are', async () => {
  await api.db.query(`
    insert into tidegate.types (type, timeout_ms, max_attempts, registered_at, changed_at)
    values ('known', 1000, 9, now(), now())`)
  const response = await api.post('/jobs', job('unknown', { type: 'mail.welcom' }))
  expect(response.status).toBe(400)
  const { code, error } = await json(response)
  expect(code).toBe('unknown_type')
  expect(error).toMatch(
    /^no root has registered the type mail\.welcom; known types: .*known.*list, mail\.welcome/,
  )
  expect(await api.db.query(`select from tidegate.jobs where idempotency_key = 'unknown'`)).toEqual([])
})

test('a delay is counted by the database, fractions to the millisecond', async () => {
  const { created_at, available_at } = await api.enqueue({ delay_seconds: 90.0005 })
  expect(Date.parse(String(available_at)) - Date.parse(String(created_at))).toBe(90_001)
})

test.each([
  ['2020-02-29T12:00:00+05:30', '2020-02-29T06:30:00.000000Z'],
  ['2020-02-29T12:00:00.1234567Z', '2020-02-29T12:00:00.123456Z'],
  ['1970-01-01T23:59:00+23:59', '1970-01-01T00:00:00.000000Z'],
])('available_at %s is stored as %s', async (sent, stored) => {
  expect(await api.enqueue({ available_at: sent })).toMatchObject({ available_at: stored })
})

test.each([0, '', false, [], {}, 'text', { __proto__: null, a: 1 }])('%j is a payload', async (payload) => {
  expect(await api.enqueue({ payload })).toMatchObject({ status: 'pending', payload })
})

test('a payload that names __proto__ is stored as it is', async () => {
  const response = await api.post(
    '/jobs',
    '{"type":"test.echo","idempotency_key":"proto","payload":{"__proto__":{"a":1}}}',
  )
  expect(await response.text()).toContain('"payload":{"__proto__":{"a":1}}')
})

test.each([
  ['00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', true],
  ['00-00000000000000000000000000000000-b7ad6b7169203331-01', false],
  ['00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01', false],
  ['ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', false],
  ['nonsense', false],
])('traceparent %s: kept %s', async (traceparent, kept) => {
  const response = await api.post('/jobs', job(`trace ${traceparent}`), { traceparent })
  expect(response.status).toBe(201)
  const { id } = await json(response)
  const rows = await api.db.query('select traceparent from tidegate.jobs where id = $1', [id])
  expect(rows).toEqual([{ traceparent: kept ? traceparent : null }])
})

test('the hook is called for a new job that is due, and for no other', async () => {
  kicks.length = 0
  await api.post('/jobs', job('kick'))
  expect(kicks).toEqual([undefined])
  await api.post('/jobs', job('kick'))
  await api.post('/jobs', job('kick later', { delay_seconds: 1 }))
  await api.post('/jobs', job('kick refused', { priority: 101 }))
  expect(kicks).toHaveLength(1)
  await api.post('/jobs', job('kick past', { available_at: '2020-01-01T00:00:00Z' }))
  expect(kicks).toHaveLength(2)
})

test('the hook gets what keeps the invocation alive, where there is such a thing', async () => {
  const kept: Promise<unknown>[] = []
  const init = { method: 'POST', headers: { ...as('enqueue'), 'Content-Type': 'application/json' } }
  const body = JSON.stringify(job('kick in a worker'))
  await api.send('/jobs', { ...init, body }, { waitUntil: (work) => kept.push(work) })
  const waitUntil = kicks.at(-1) as (work: Promise<unknown>) => void
  const work = Promise.resolve()
  waitUntil(work)
  expect(kept).toContain(work)
})
