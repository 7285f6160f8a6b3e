import { readFileSync } from 'node:fs'

import { Webhook } from 'standardwebhooks'
import { expect, test } from 'vitest'

import { echo } from '../../src/handlers/echo.ts'
import { webhookJob } from '../../src/handlers/webhook.ts'
import type { Json } from '../../src/core/job.ts'
import { handlerContext, startReceiver, type Received } from '../support/webhook-receiver.ts'

const secret = `whsec_${btoa('k'.repeat(32))}`
const payload = { invoice: 7, customer: 'Łódź 😀' }

const signed = ({ body, headers }: Received, at: string | undefined = secret): unknown =>
  new Webhook(at).verify(body, {
    'webhook-id': String(headers['webhook-id']),
    'webhook-timestamp': String(headers['webhook-timestamp']),
    'webhook-signature': String(headers['webhook-signature']),
  })

test('a webhook POSTs its payload as JSON, signed so that any Standard Webhooks library accepts it', async () => {
  await using receiver = await startReceiver((response) => response.end('fine'))
  const job = webhookJob('invoice.paid', { url: `${receiver.origin}/hooks?a=1`, secret })

  expect(await job.run(payload, handlerContext({ id: 'job-1' }))).toEqual({ status: 200 })

  const [request] = receiver.received
  expect(request).toMatchObject({ method: 'POST', path: '/hooks?a=1', body: JSON.stringify(payload) })
  expect(request?.headers).toMatchObject({ 'content-type': 'application/json', 'webhook-id': 'job-1' })
  expect(request && signed(request)).toEqual(payload)
})

test('a signature by another secret is not accepted', async () => {
  await using receiver = await startReceiver((response) => response.end())
  await webhookJob('invoice.paid', { url: receiver.origin, secret }).run(payload, handlerContext())
  const [request] = receiver.received
  expect(() => request && signed(request, `whsec_${btoa('x'.repeat(32))}`)).toThrow('No matching signature')
})

test('every attempt has the same id, and a timestamp and a signature of its own', async () => {
  await using receiver = await startReceiver((response) => response.end())
  const times = [Date.now() - 60_000, Date.now()]
  const sentAt = [...times]
  const job = webhookJob(
    'invoice.paid',
    { url: receiver.origin, secret },
    { now: () => sentAt.shift() ?? Number.NaN },
  )

  await job.run(payload, handlerContext({ attempt: 1 }))
  await job.run(payload, handlerContext({ attempt: 2 }))

  const header = (name: string) => receiver.received.map(({ headers }) => headers[name])
  expect(new Set(header('webhook-id')).size).toBe(1)
  expect(header('webhook-timestamp')).toEqual(times.map((time) => String(Math.floor(time / 1_000))))
  expect(new Set(header('webhook-signature')).size).toBe(2)
  for (const request of receiver.received) expect(signed(request)).toEqual(payload)
})

test('without a secret a webhook is sent unsigned, with its id and timestamp', async () => {
  await using receiver = await startReceiver((response) => response.end())
  await webhookJob('invoice.paid', { url: receiver.origin }).run(payload, handlerContext({ id: 'job-1' }))
  const headers = receiver.received[0]?.headers
  expect(headers).toMatchObject({
    'webhook-id': 'job-1',
    'webhook-timestamp': expect.stringMatching(/^\d+$/) as string,
  })
  expect(headers).not.toHaveProperty('webhook-signature')
})

test('the trace context of the enqueue is passed on', async () => {
  await using receiver = await startReceiver((response) => response.end())
  const job = webhookJob('invoice.paid', { url: receiver.origin })
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  await job.run(payload, handlerContext({ traceparent }))
  await job.run(payload, handlerContext({ traceparent: null }))
  expect(receiver.received.map(({ headers }) => headers.traceparent)).toEqual([traceparent, undefined])
})

test('the headers of the target are sent, and the release as the user agent', async () => {
  await using receiver = await startReceiver((response) => response.end())
  await webhookJob('invoice.paid', { url: receiver.origin, headers: { Authorization: 'Bearer abc' } }).run(
    payload,
    handlerContext(),
  )
  const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string }
  expect(receiver.received[0]?.headers).toMatchObject({
    authorization: 'Bearer abc',
    'user-agent': `tidegate/${version}`,
  })
})

test.each<Json>([null, false, 0, '', [], {}])('the payload %j arrives as it is', async (payload) => {
  await using receiver = await startReceiver((response) => response.end())
  await webhookJob('invoice.paid', { url: receiver.origin, secret }).run(payload, handlerContext())
  expect(receiver.received[0]?.body).toBe(JSON.stringify(payload))
})

test('an answer of 2xx completes the job before its body has ended', async () => {
  await using receiver = await startReceiver((response) =>
    response.writeHead(202).write('the rest never comes'),
  )
  const job = webhookJob('invoice.paid', { url: receiver.origin })
  expect(await job.run(payload, handlerContext())).toEqual({ status: 202 })
})

test('a target’s limits become the limits of its job type', () => {
  const limits = { timeout_ms: 2_000, max_attempts: 3, backoff_seconds: [1, 1.5] }
  expect(webhookJob('a', { url: 'https://example.com', ...limits })).toMatchObject({
    type: 'a',
    timeout: 2_000,
    maxAttempts: 3,
    backoff: { delaysMs: [1_000, 1_500] },
  })
  expect(webhookJob('a', { url: 'https://example.com' })).toMatchObject({
    timeout: 10_000,
    maxAttempts: 8,
    backoff: { delaysMs: [5_000, 300_000, 1_800_000, 7_200_000, 18_000_000, 36_000_000, 36_000_000] },
  })
})

test('a target that is not acceptable throws with all of its problems', () => {
  expect(() => webhookJob('a', { url: 'ftp://example.com', max_attempts: 0 })).toThrow(
    'webhook a.url: expected an http or https URL without user and password, got another text; ' +
      'webhook a.max_attempts: expected a whole number from 1 to 100, got 0',
  )
})

test('test.echo returns its payload', async () => {
  const payload: unknown = JSON.parse('{"a":[1,null],"__proto__":{"b":1}}')
  const checked = await echo.payload['~standard'].validate(payload)
  expect(echo.type).toBe('test.echo')
  expect(JSON.stringify(await echo.run((checked as { value: Json }).value, handlerContext()))).toBe(
    JSON.stringify(payload),
  )
})
