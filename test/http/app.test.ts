import { afterAll, beforeAll, expect, test } from 'vitest'

import { as, json, openApi, type Api } from '../support/api.ts'

let api: Api

beforeAll(async () => {
  api = await openApi()
})
afterAll(() => api.close())

const id = '00000000-0000-7000-8000-000000000000'

test.each(['/', '/job', '/jobs/', `/jobs/${id}/delete`])('%s is no route', async (path) => {
  const response = await api.send(path)
  expect(response.status).toBe(404)
  expect(await json(response)).toEqual({ code: 'not_found', error: `no route has the path ${path}` })
})

test.each([
  ['PUT', '/jobs', 'POST'],
  ['GET', '/jobs', 'POST'],
  ['HEAD', '/jobs', 'POST'],
  ['DELETE', `/jobs/${id}`, 'GET, HEAD'],
  ['GET', `/jobs/${id}/requeue`, 'POST'],
  ['OPTIONS', '/tick', 'POST, GET, HEAD'],
  ['POST', '/healthz', 'GET, HEAD'],
])('%s %s is 405 and Allow says %s', async (method, path, allow) => {
  const response = await api.send(path, { method })
  expect(response.status).toBe(405)
  expect(response.headers.get('Allow')).toBe(allow)
  if (method === 'HEAD') return
  expect(await json(response)).toEqual({
    code: 'method_not_allowed',
    error: `expected one of the methods ${allow}, got ${method}`,
  })
})

test('a job that is not found is no wrong method', async () => {
  const response = await api.send(`/jobs/${id}`, { headers: as('enqueue') })
  expect(response.status).toBe(404)
  expect(response.headers.get('Allow')).toBeNull()
})

test.each([
  ['/healthz', {}],
  ['/nowhere', {}],
  ['/metrics', {}],
  ['/metrics', as('operator')],
  [`/jobs/${id}`, as('enqueue')],
  ['/openapi.json', {}],
])('%s must not be stored and carries an id', async (path, headers) => {
  const response = await api.send(path, { headers })
  expect(response.headers.get('Cache-Control')).toBe('no-store')
  expect(response.headers.get('X-Request-Id')).toMatch(/^[\da-f-]{36}$/)
})

test.each(['abc-123', '!~', 'a'.repeat(128)])('the request id %s comes back and is logged', async (sent) => {
  const response = await api.send('/healthz', { headers: { 'X-Request-Id': sent } })
  expect(response.headers.get('X-Request-Id')).toBe(sent)
  expect(api.log.at(-1)).toMatchObject({ event: 'request done', request: sent })
})

test.each(['a'.repeat(129), 'a b', 'ä', ''])('the request id %j is replaced', async (sent) => {
  const response = await api.send('/healthz', { headers: { 'X-Request-Id': sent } })
  expect(response.headers.get('X-Request-Id')).toMatch(/^[\da-f-]{36}$/)
})

test('an error that nobody expected is logged under the request’s id and tells the client nothing', async () => {
  const broken = await openApi(() => ({ metrics: () => Promise.reject(new Error('a detail of ours')) }))
  const response = await broken.send('/metrics', { headers: { ...as('operator'), 'X-Request-Id': 'r-1' } })
  expect(response.status).toBe(500)
  expect(response.headers.get('X-Request-Id')).toBe('r-1')
  expect(response.headers.get('Cache-Control')).toBe('no-store')
  expect(await json(response)).toEqual({
    code: 'internal',
    error: 'something went wrong here; the log has it under this request id',
  })
  expect(broken.log).toContainEqual(
    expect.objectContaining({
      level: 'error',
      event: 'request failed',
      request: 'r-1',
      error: 'a detail of ours',
    }),
  )
  await broken.close()
})

test('metrics are what the port makes of the database', async () => {
  await api.enqueue()
  const response = await api.send('/metrics', { headers: as('operator') })
  expect(response.status).toBe(200)
  expect(response.headers.get('Content-Type')).toMatch(/^text\/plain/)
  expect(await response.text()).toContain('jobs_enqueued_total{type="test.echo"} 1\n')
})

test('under a base path the same routes are there, and only there', async () => {
  const based = await openApi(() => ({ basePath: '/queue' }))
  expect((await based.send('/queue/healthz')).status).toBe(200)
  expect((await based.send('/healthz')).status).toBe(404)
  expect((await based.send('/queue/jobs')).headers.get('Allow')).toBe('POST')
  const created = await based.post('/queue/jobs', {
    type: 'test.echo',
    payload: {},
    idempotency_key: 'based',
  })
  const location = created.headers.get('Location') ?? ''
  expect(location).toMatch(/^\/queue\/jobs\//)
  expect((await based.send(location, { headers: as('enqueue') })).status).toBe(200)
  expect(Object.keys((await json(based.send('/queue/openapi.json'))).paths as object)).toContain(
    '/queue/jobs',
  )
  await based.close()
})
