import { afterAll, beforeAll, expect, test } from 'vitest'

import { json, openApi, type Answer, type Api } from '../support/api.ts'

let api: Api
let document: Answer

beforeAll(async () => {
  api = await openApi()
  document = await json(api.send('/openapi.json'))
})
afterAll(() => api.close())

interface Operation {
  readonly security?: unknown
  readonly responses: Readonly<Record<string, unknown>>
  readonly parameters?: readonly { readonly name: string; readonly in: string }[]
}

const operations = () => document.paths as Readonly<Record<string, Readonly<Record<string, Operation>>>>

test('the contract is open to anyone and lists every route', () => {
  expect(document.openapi).toBe('3.1.0')
  const listed = Object.entries(operations()).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  )
  expect(listed.sort()).toEqual([
    'GET /healthz',
    'GET /jobs/{id}',
    'GET /metrics',
    'GET /openapi.json',
    'GET /readyz',
    'GET /tick',
    'POST /jobs',
    'POST /jobs/{id}/cancel',
    'POST /jobs/{id}/requeue',
    'POST /tick',
  ])
})

test('a route that asks for a token says so, and one that does not does not', () => {
  expect(operations()['/jobs']?.post?.security).toEqual([{ token: [] }])
  expect(Object.keys(operations()['/jobs']?.post?.responses ?? {})).toEqual(
    expect.arrayContaining(['200', '201', '400', '401', '403', '413', '415', '422', '500', '503']),
  )
  expect(operations()['/healthz']?.get?.security).toBeUndefined()
  expect(document.components).toMatchObject({
    securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
  })
})

test('bodies, parameters and shared schemas are described', () => {
  expect(operations()['/jobs']?.post).toMatchObject({
    requestBody: {
      required: true,
      content: {
        'application/json': {
          schema: {
            type: 'object',
            additionalProperties: false,
            required: ['type', 'payload'],
            properties: { priority: { type: 'integer', minimum: -100, maximum: 100 } },
          },
        },
      },
    },
  })
  expect(operations()['/tick']?.get?.parameters?.map(({ name, in: where }) => `${where} ${name}`)).toEqual([
    'query window_ms',
    'query max_jobs',
  ])
  const { schemas } = document.components as { schemas: Record<string, unknown> }
  expect(Object.keys(schemas).sort()).toEqual(['Error', 'Job', 'TickReport'])
})

test('every reference leads somewhere', () => {
  const references = [...JSON.stringify(document).matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g)]
  const { schemas } = document.components as { schemas: Record<string, unknown> }
  expect(references.length).toBeGreaterThan(0)
  for (const [, name] of references) expect(schemas).toHaveProperty(String(name))
})

test('the contract is made once', async () => {
  const text = await (await api.send('/openapi.json')).text()
  expect(JSON.parse(text)).toEqual(document)
  expect(await (await api.send('/openapi.json')).text()).toBe(text)
})
