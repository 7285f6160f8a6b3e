import { afterAll, beforeAll, expect, test, vi } from 'vitest'

import { createDatabase, type TestDatabase } from '../support/database.ts'

const secrets = {
  OPERATOR_TOKENS: 'operator-secret-of-tests',
  ENQUEUE_TOKENS: 'enqueue-secret-of-tests',
  CRON_SECRET: 'cron-secret-of-tests',
}
const job = JSON.stringify({ type: 'test.echo', payload: { a: 1 }, idempotency_key: 'k' })

let db: TestDatabase
beforeAll(async () => {
  db = await createDatabase()
  const settings = {
    ...secrets,
    DATABASE_URL: db.url,
    TIDEGATE_ENV: 'test',
    KICK: 'off',
    LOG_LEVEL: 'silent',
  }
  for (const [name, value] of Object.entries(settings)) vi.stubEnv(name, value)
})
afterAll(async () => {
  vi.unstubAllEnvs()
  await db.close()
})

test('a function that takes a Request serves the API, and its platform ticks with a GET', async () => {
  const { GET, POST } = await import('../../examples/functions/handler.ts')
  const enqueued = await POST(
    new Request('https://app.example/jobs', {
      method: 'POST',
      headers: { authorization: `Bearer ${secrets.ENQUEUE_TOKENS}`, 'content-type': 'application/json' },
      body: job,
    }),
  )
  expect(enqueued.status).toBe(201)
  const ticked = await GET(
    new Request('https://app.example/tick', { headers: { authorization: `Bearer ${secrets.CRON_SECRET}` } }),
  )
  expect(ticked.status).toBe(200)
  await expect(ticked.json()).resolves.toMatchObject({ completed: 1, stopped: 'empty' })
})

test('a Lambda serves the API and its tick', async () => {
  const { handler } = await import('../../examples/lambda/handler.ts')
  const call = async (method: string, path: string, token: string, body?: string) => {
    const http = { method, path, protocol: 'HTTP/1.1', sourceIp: '127.0.0.1', userAgent: 'test' }
    const event = {
      version: '2.0',
      routeKey: '$default',
      rawPath: path,
      rawQueryString: '',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', host: 'x.example' },
      requestContext: { http, domainName: 'x.example', requestId: '1', stage: '$default' },
      isBase64Encoded: false,
      ...(body !== undefined && { body }),
    }
    return handler(event as unknown as Parameters<typeof handler>[0])
  }
  await expect(call('POST', '/jobs', secrets.ENQUEUE_TOKENS, job)).resolves.toMatchObject({ statusCode: 200 })
  const answer = await call('GET', '/tick', secrets.CRON_SECRET)
  expect(answer).toMatchObject({ statusCode: 200 })
  expect(JSON.parse((answer as { body: string }).body)).toMatchObject({ stopped: 'empty' })
})
