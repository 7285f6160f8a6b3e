import { describe, expect, it } from 'vitest'
import { z } from 'zod'

import { createClient, EnqueueError } from '../../src/client.ts'
import { createWorker } from '../../src/create-worker.ts'
import { defineJob } from '../../src/registry.ts'
import { startReceiver } from '../support/webhook-receiver.ts'

const welcome = defineJob({
  type: 'mail.welcome',
  payload: z.object({ email: z.email(), at: z.string().transform((text) => new Date(text)) }),
  run: ({ at }) => at.getTime(),
})
const report = defineJob({ type: 'report', payload: z.number(), run: () => undefined })
const worker = createWorker({ jobs: [welcome, report] })

const payload = { email: 'ann@example.com', at: '2026-01-01' }

describe('createClient', () => {
  it('enqueues over HTTP and says whether the key was known', async () => {
    await using api = await startReceiver((response) =>
      response
        .writeHead(200, { 'content-type': 'application/json', 'idempotent-replayed': 'true' })
        .end('{"id":"1","status":"completed"}'),
    )
    const jobs = createClient<typeof worker>({ url: `${api.origin}/base`, token: 't0ken' })
    await expect(
      jobs.enqueue('mail.welcome', payload, { key: 'k', delaySeconds: 5, priority: 2 }),
    ).resolves.toEqual({ id: '1', status: 'completed', replayed: true })
    const [request] = api.received
    expect(request).toMatchObject({
      method: 'POST',
      path: '/base/jobs',
      headers: { authorization: 'Bearer t0ken' },
    })
    expect(JSON.parse(request?.body ?? '')).toEqual({
      type: 'mail.welcome',
      payload,
      idempotency_key: 'k',
      priority: 2,
      delay_seconds: 5,
    })
  })

  it('rejects with the code of the API', async () => {
    await using api = await startReceiver((response) =>
      response
        .writeHead(422, { 'content-type': 'application/json' })
        .end('{"error":"taken","code":"idempotency_key_reused"}'),
    )
    const jobs = createClient<typeof worker>({ url: api.origin, token: 't' })
    const error = await jobs.enqueue('report', 1, { key: 'k' }).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(EnqueueError)
    expect(error).toMatchObject({ status: 422, code: 'idempotency_key_reused', message: 'taken' })
  })

  it('makes the same enqueue a statement', () => {
    const jobs = createClient<typeof worker>({ url: 'http://localhost', token: 't' })
    const { text, params } = jobs.statement('report', 7, { key: 'k', availableAt: new Date(0) })
    expect(text).toContain('tidegate.enqueue(')
    expect(params).toEqual(['report', '7', 'k', null, null, '1970-01-01T00:00:00.000Z', null, null, true])
  })

  it('lets no wrong type or payload compile', () => {
    const jobs = createClient<typeof worker>({ url: 'http://localhost', token: 't' })
    const compiled = () => {
      // @ts-expect-error -- no such type
      void jobs.enqueue('mail.goodbye', payload, { key: 'k' })
      // @ts-expect-error -- the schema's input is a text, not its output
      void jobs.enqueue('mail.welcome', { ...payload, at: new Date() }, { key: 'k' })
      // @ts-expect-error -- the payload of another type
      void jobs.statement('report', payload, { key: 'k' })
      // @ts-expect-error -- a key is required
      void jobs.enqueue('report', 1, {})
    }
    expect(compiled).toBeTypeOf('function')
  })
})
