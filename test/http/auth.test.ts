import { afterAll, beforeAll, expect, test } from 'vitest'

import { as, json, openApi, tokens, type Api } from '../support/api.ts'

let api: Api

beforeAll(async () => {
  api = await openApi()
})
afterAll(() => api.close())

const id = '00000000-0000-7000-8000-000000000000'

/** Every route that asks for a token, with the scopes that may use it. */
const routes = [
  ['POST', '/jobs', ['enqueue', 'operator']],
  ['GET', `/jobs/${id}`, ['enqueue', 'operator']],
  ['POST', `/jobs/${id}/requeue`, ['operator']],
  ['POST', `/jobs/${id}/cancel`, ['operator']],
  ['POST', '/tick', ['cron', 'operator']],
  ['GET', '/tick', ['cron', 'operator']],
  ['GET', '/metrics', ['operator']],
] as const

const SCOPES = ['enqueue', 'operator', 'cron'] as const

const permitted = routes.flatMap(([method, path, allowed]) =>
  allowed.map((scope) => ({ method, path, scope })),
)
const forbidden = routes.flatMap(([method, path, allowed]) =>
  SCOPES.filter((scope) => !allowed.some((one) => one === scope)).map((scope) => ({
    method,
    path,
    scope,
    needed: allowed[0],
  })),
)

test.each(permitted)('$method $path is for scope $scope', async ({ method, path, scope }) => {
  const response = await api.send(path, { method, headers: as(scope) })
  expect([401, 403]).not.toContain(response.status)
})

test.each(forbidden)('$method $path is not for scope $scope', async ({ method, path, scope, needed }) => {
  const response = await api.send(path, { method, headers: as(scope) })
  expect(response.status).toBe(403)
  expect(await json(response)).toEqual({
    code: 'forbidden',
    error: `expected a token of scope ${needed}, got one of scope ${scope}`,
  })
})

test.each(routes)('%s %s without a token is 401', async (method, path) => {
  const response = await api.send(path, { method })
  expect(response.status).toBe(401)
  expect(response.headers.get('WWW-Authenticate')).toBe('Bearer')
  expect(await json(response)).toMatchObject({ code: 'unauthorized' })
})

test.each([
  'Bearer wrong',
  'Bearer enqueue-secre',
  'Bearer enqueue-secret2',
  'Bearer ENQUEUE-SECRET',
  'Bearer',
  'Bearer ',
  'Basic enqueue-secret',
  'enqueue-secret',
  'Bearer shop:enqueue-secret',
  'Bearer enqueue-secret enqueue-secret',
])('Authorization %j is nobody’s', async (authorization) => {
  const response = await api.send(`/jobs/${id}`, { headers: { Authorization: authorization } })
  expect(response.status).toBe(401)
  expect(await json(response)).toEqual({
    code: 'unauthorized',
    error: 'expected a bearer token of scope enqueue, got one that is not known',
  })
})

test.each(tokens.operator)('every token of a scope is good: $name', async ({ secret }) => {
  const response = await api.send('/metrics', { headers: { Authorization: `bearer ${secret}` } })
  expect(response.status).toBe(200)
})

test('a secret that stands in two scopes is good for both', async () => {
  const shared = { name: 'both', secret: 'shared' }
  const both = await openApi(() => ({ tokens: { enqueue: [shared], operator: [], cron: [shared] } }))
  const headers = { Authorization: 'Bearer shared' }
  expect((await both.send(`/jobs/${id}`, { headers })).status).toBe(404)
  expect((await both.send('/tick', { headers })).status).toBe(200)
  expect((await both.send('/metrics', { headers })).status).toBe(403)
  await both.close()
})

test('without tokens nothing is open, not even to an empty one', async () => {
  const none = await openApi(() => ({
    tokens: { enqueue: [{ name: '1', secret: '' }], operator: [], cron: [] },
  }))
  for (const authorization of ['Bearer ', 'Bearer', '']) {
    const response = await none.send(`/jobs/${id}`, { headers: { Authorization: authorization } })
    expect(response.status).toBe(401)
  }
  await none.close()
})

test('log lines carry the name of the token, never its secret', async () => {
  await api.send(`/jobs/${id}`, { headers: as('enqueue') })
  expect(api.log.at(-1)).toMatchObject({ event: 'request done', token: 'shop', status: 404 })
  expect(JSON.stringify(api.log)).not.toContain('secret')
})

test('whoever is refused opens no database', async () => {
  const { opened } = api.databases
  await api.send(`/jobs/${id}`)
  await api.send('/metrics', { headers: as('cron') })
  expect(api.databases.opened).toBe(opened)
})
