import { afterAll, beforeAll, expect, test } from 'vitest'

import { as, json, openApi, type Api } from '../support/api.ts'

let api: Api

beforeAll(async () => {
  api = await openApi()
})
afterAll(() => api.close())

const valid = { type: 'test.echo', payload: {}, idempotency_key: 'key' }

async function issuesOf(body: unknown, headers: Record<string, string> = {}): Promise<unknown> {
  const response = await api.post('/jobs', body, headers)
  expect(response.status).toBe(400)
  const { code, issues } = await json(response)
  expect(code).toBe('invalid_request')
  return issues
}

test('everything that is wrong is said at once', async () => {
  const response = await api.post('/jobs', { type: 'a b', priority: 1.5, prio: 1, Type: 'x' })
  expect(response.status).toBe(400)
  const { error, issues } = await json(response)
  expect(issues).toEqual([
    {
      path: 'type',
      message: 'expected a job type of the form ^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$, got "a b"',
    },
    { path: 'payload', message: 'expected a JSON value other than null, got nothing' },
    {
      path: 'idempotency_key',
      message: 'expected 1 to 255 characters without U+0000 and lone surrogates, got nothing',
    },
    { path: 'priority', message: 'expected an integer from -100 to 100, got 1.5' },
    { path: 'prio', message: 'unknown field' },
    { path: 'Type', message: 'unknown field' },
  ])
  expect(error).toBe(
    'type: expected a job type of the form ^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$, got "a b" (and 5 more)',
  )
})

test('the fields, the schema of the type and conflicts are checked together', async () => {
  const body = {
    type: 'list',
    payload: { items: 'x' },
    idempotency_key: '',
    delay_seconds: 1,
    available_at: 'soon',
  }
  expect(await issuesOf(body)).toEqual([
    { path: 'idempotency_key', message: expect.stringMatching(/^expected 1 to 255/) as unknown },
    { path: 'available_at', message: expect.stringMatching(/^expected an RFC 3339/) as unknown },
    { path: 'available_at', message: 'expected delay_seconds or available_at, got both' },
    { path: 'payload.items', message: expect.stringMatching(/array/) as unknown },
  ])
})

test.each<[string, unknown]>([
  ['type', ''],
  ['type', 7],
  ['type', { toString: 1 }],
  ['type', 'a'.repeat(101)],
  ['payload', null],
  ['idempotency_key', ''],
  ['idempotency_key', null],
  ['idempotency_key', 'a'.repeat(256)],
  ['idempotency_key', 'a\0b'],
  ['idempotency_key', '\ud800'],
  ['priority', 101],
  ['priority', -101],
  ['priority', '1'],
  ['priority', null],
  ['delay_seconds', -1],
  ['delay_seconds', -0.001],
  ['delay_seconds', 31_536_001],
  ['delay_seconds', '1'],
  ['max_attempts', -1],
  ['max_attempts', 101],
  ['max_attempts', 1.5],
  ['available_at', '2999-01-01T00:00:00Z'],
  ['available_at', '0001-01-01T00:00:00Z'],
  ['available_at', '2020-01-01T00:00:00'],
  ['available_at', '2020-01-01'],
  ['available_at', '2020-02-30T00:00:00Z'],
  ['available_at', 1_700_000_000],
])('%s %j is refused', async (path, value) => {
  expect(await issuesOf({ ...valid, [path]: value })).toMatchObject([{ path }])
})

test.each([
  { priority: 100 },
  { priority: -100 },
  { delay_seconds: 0 },
  { delay_seconds: 31_536_000 },
  { max_attempts: 100 },
  { idempotency_key: 'ä'.repeat(255) },
  { idempotency_key: '😀'.repeat(255) },
])('%j is accepted', async (field) => {
  expect(await api.enqueue(field)).toMatchObject({ status: 'pending' })
})

test.each([
  ['payload', '{"a":[1e400]}', 'payload.a.0', /a number that a double can keep/],
  ['payload', '[9007199254740993]', 'payload.0', /a number that a double can keep/],
  ['payload', '{"a":{"b":"\\u0000"}}', 'payload.a.b', /without U\+0000/],
  ['payload', '"\\ud800"', 'payload', /lone surrogates/],
  ['payload', `${'['.repeat(65)}${']'.repeat(65)}`, `payload${'.0'.repeat(64)}`, /at most 64 levels/],
  ['priority', '1e400', 'priority', /from -100 to 100, got a number out of range/],
])('%s %s is refused with its path', async (field, text, path, message) => {
  const rest = Object.entries(valid).filter(([name]) => name !== field)
  const body = `${JSON.stringify(Object.fromEntries(rest)).slice(0, -1)},"${field}":${text}}`
  expect(await issuesOf(body)).toMatchObject([{ path, message: expect.stringMatching(message) as unknown }])
})

test('a payload may be 256 KiB of JSON, and not one byte more', async () => {
  const largest = 'x'.repeat(262_142)
  expect(await api.enqueue({ payload: largest })).toMatchObject({ status: 'pending' })
  const response = await api.post('/jobs', { ...valid, payload: `${largest}x` })
  expect(response.status).toBe(413)
  expect(await json(response)).toEqual({
    code: 'payload_too_large',
    error: 'payload: expected at most 262144 bytes of JSON, got 262145',
  })
})

test.each(['[]', '"text"', 'null', '7'])('a body of %s is no enqueue', async (body) => {
  expect(await issuesOf(body)).toMatchObject([
    { path: '', message: expect.stringMatching(/^expected a JSON object/) as unknown },
  ])
})

test('a field called __proto__ is unknown', async () => {
  expect(await issuesOf(`${JSON.stringify(valid).slice(0, -1)},"__proto__":{}}`)).toEqual([
    { path: '__proto__', message: 'unknown field' },
  ])
})

test('a header key and a field key that differ are refused', async () => {
  expect(await issuesOf(valid, { 'Idempotency-Key': 'other' })).toEqual([
    { path: 'idempotency_key', message: 'expected the key of the header Idempotency-Key, got another' },
  ])
})

test.each([
  ['an empty one', ''],
  ['one beyond ASCII', 'schlüssel'],
  ['a longer one', 'a'.repeat(256)],
])('a header key is refused like a field: %s', async (_, key) => {
  const { type, payload } = valid
  expect(await issuesOf({ type, payload }, { 'Idempotency-Key': key })).toMatchObject([
    { path: 'idempotency_key' },
  ])
})

test.each([
  ['none', undefined],
  ['text', 'text/plain'],
  ['a form', 'application/x-www-form-urlencoded'],
  ['a dialect of JSON', 'application/vnd.api+json'],
  ['a longer name', 'application/jsonp'],
])('a body of another type is refused: %s', async (_, type) => {
  const response = await api.send('/jobs', {
    method: 'POST',
    headers: { ...as('enqueue'), ...(type !== undefined && { 'Content-Type': type }) },
    body: new TextEncoder().encode(JSON.stringify(valid)),
  })
  expect(response.status).toBe(415)
  expect(await json(response)).toMatchObject({
    code: 'unsupported_media_type',
    error: `expected a body of application/json, got ${type ?? 'no content type'}`,
  })
})

test('a compressed body is refused as what it is', async () => {
  const response = await api.post('/jobs', valid, { 'Content-Encoding': 'gzip' })
  expect(response.status).toBe(415)
})

test.each(['application/json; charset=utf-8', 'application/json;charset=UTF-8', 'Application/JSON ; x=y'])(
  'a body of %s is JSON',
  async (type) => {
    const response = await api.post('/jobs', { ...valid, idempotency_key: type }, { 'Content-Type': type })
    expect(response.status).toBe(201)
  },
)

test.each([
  ['', /does not parse/],
  ['{', /does not parse/],
  ["{'a':1}", /does not parse/],
  ['['.repeat(100_000), /nested at most/],
])('a body that is no JSON is refused: %.20s', async (body, error) => {
  const response = await api.post('/jobs', body)
  expect(response.status).toBe(400)
  expect(await json(response)).toEqual({
    code: 'invalid_json',
    error: expect.stringMatching(error) as unknown,
  })
})

test('a body that is not UTF-8 is refused', async () => {
  const response = await postBytes(new Uint8Array([0x22, 0xff, 0x22]))
  expect(response.status).toBe(400)
  expect(await json(response)).toMatchObject({ code: 'invalid_json' })
})

test('a body over 1 MiB is refused by its length, unread', async () => {
  let pulled = 0
  const body = new ReadableStream({ pull: () => void (pulled += 1) }, { highWaterMark: 0 })
  const response = await postBytes(body, { 'Content-Length': '1048577' })
  expect(response.status).toBe(413)
  expect(await json(response)).toMatchObject({ code: 'body_too_large' })
  expect(pulled).toBe(0)
})

test('a body without a length is read to the limit and no further', async () => {
  let pulled = 0
  let cancelled = false
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        pulled += 1
        controller.enqueue(new Uint8Array(262_144).fill(0x20))
        // It ends, lest a broken limit takes all memory.
        if (pulled === 20) controller.close()
      },
      cancel: () => void (cancelled = true),
    },
    { highWaterMark: 0 },
  )
  const response = await postBytes(body)
  expect(response.status).toBe(413)
  expect({ pulled, cancelled }).toEqual({ pulled: 5, cancelled: true })
})

test('a body of exactly 1 MiB is read', async () => {
  const text = JSON.stringify({ ...valid, idempotency_key: 'large' })
  const response = await api.post('/jobs', text.padEnd(1_048_576, ' '))
  expect(response.status).toBe(201)
})

test('a body that breaks off is the client’s error', async () => {
  const body = new ReadableStream({ pull: (controller) => controller.error(new Error('gone')) })
  const response = await postBytes(body)
  expect(response.status).toBe(400)
  expect(await json(response)).toMatchObject({ code: 'invalid_json' })
})

test('what is refused leaves nothing', async () => {
  expect(await api.db.query(`select from tidegate.jobs where idempotency_key = 'key'`)).toEqual([])
})

function postBytes(
  body: NonNullable<RequestInit['body']>,
  headers: Record<string, string> = {},
): Promise<Response> {
  const init = { method: 'POST', body, duplex: 'half' }
  return api.send('/jobs', {
    ...init,
    headers: { ...as('enqueue'), 'Content-Type': 'application/json', ...headers },
  })
}
