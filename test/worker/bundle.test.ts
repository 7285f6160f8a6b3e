import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

import { bundleWorker } from '../../scripts/workerd/bundle.ts'
import { startWorkerd, type Workerd } from '../../scripts/workerd.ts'
import { bundleExample } from '../support/bundle.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { startReceiver, type Receiver } from '../support/webhook-receiver.ts'

const operator = 'operator-secret-of-tests'
const secret = `whsec_${btoa('a secret of 32 bytes for the test')}`

const settings = (db: TestDatabase) => ({
  DATABASE_URL: db.url,
  TIDEGATE_ENV: 'test',
  // So that each test says itself when jobs run.
  KICK: 'off',
  OPERATOR_TOKENS: `tests:${operator}`,
})

const post = (url: string, path: string, body?: object) =>
  fetch(`${url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${operator}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
const get = (url: string, path: string) =>
  fetch(`${url}${path}`, { headers: { authorization: `Bearer ${operator}` } })

describe('the shipped bundle in workerd', () => {
  let db: TestDatabase
  let receiver: Receiver
  let worker: Workerd
  const logged: string[] = []

  beforeAll(async () => {
    db = await createDatabase()
    receiver = await startReceiver((response) => response.writeHead(204).end())
    const target = { url: `${receiver.origin}/hook`, secret: { env: 'HOOK_SECRET' } }
    worker = await startWorkerd({
      bundle: await bundleWorker(),
      vars: {
        ...settings(db),
        WEBHOOKS: JSON.stringify({ 'invoice.paid': target }),
        HOOK_SECRET: secret,
      },
      onLog: (line) => logged.push(line),
    })
  })
  afterAll(async () => {
    await worker.stop()
    await receiver[Symbol.asyncDispose]()
    await db.close()
  })

  it('serves several invocations in one isolate, each with a connection of its own (trap 20)', async () => {
    const ids: string[] = []
    for (const n of [1, 2, 3]) {
      const response = await post(worker.url, '/jobs', {
        type: 'test.echo',
        payload: { n },
        idempotency_key: `k${n}`,
      })
      expect(response.status).toBe(201)
      ids.push(((await response.json()) as { id: string }).id)
    }
    await expect(worker.scheduled()).resolves.toEqual({ ok: true, outcome: 'ok' })
    await expect(worker.scheduled()).resolves.toEqual({ ok: true, outcome: 'ok' })
    for (const [index, id] of ids.entries()) {
      const response = await get(worker.url, `/jobs/${id}`)
      await expect(response.json()).resolves.toMatchObject({
        status: 'completed',
        result: { n: index + 1 },
        attempts: 1,
      })
    }
    const open = await db.query(
      "select from pg_stat_activity where datname = current_database() and application_name = 'tidegate'",
    )
    expect(open).toEqual([])
  })

  it('delivers a webhook whose signature its receiver can verify', async () => {
    const response = await post(worker.url, '/jobs', {
      type: 'invoice.paid',
      payload: { invoice: 7 },
      idempotency_key: 'invoice-7',
    })
    const { id } = (await response.json()) as { id: string }
    await worker.scheduled()
    const [received] = receiver.received
    expect(received).toMatchObject({ method: 'POST', path: '/hook', headers: { 'webhook-id': id } })
    const headers = received?.headers as Record<string, string>
    expect(new Webhook(secret).verify(received?.body ?? '', headers)).toEqual({ invoice: 7 })
    await expect((await get(worker.url, `/jobs/${id}`)).json()).resolves.toMatchObject({
      status: 'completed',
    })
  })

  it('ticks over HTTP and answers the report', async () => {
    await post(worker.url, '/jobs', { type: 'test.echo', payload: 1, idempotency_key: 'over-http' })
    const response = await post(worker.url, '/tick')
    expect(response.status).toBe(200)
    await expect(response.json()).resolves.toMatchObject({
      completed: 1,
      stopped: 'empty',
      more: false,
      round_trips: 2,
    })
  })

  it('shows its metrics, readiness and contract', async () => {
    const metrics = await (await get(worker.url, '/metrics')).text()
    expect(metrics).toMatch(/jobs_processed_total\{type="test\.echo",result="completed"\} \d+/)
    expect(metrics).toMatch(/job_processing_duration_seconds_bucket\{le="\+Inf",type="test\.echo"\} \d+/)
    expect((await get(worker.url, '/readyz')).status).toBe(200)
    await expect((await get(worker.url, '/openapi.json')).json()).resolves.toMatchObject({ openapi: '3.1.0' })
  })

  it('logs neither secrets nor payloads', () => {
    const text = logged.join('\n')
    expect(text).toContain('tick done')
    for (const private_ of [operator, secret, 'invoice":7', new URL(db.url).password])
      expect(text).not.toContain(private_)
  })
})

describe('the kick', () => {
  it('runs a job right after its enqueue, without any tick of a cron', async () => {
    const db = await createDatabase()
    const worker = await startWorkerd({ bundle: await bundleWorker(), vars: { ...settings(db), KICK: 'on' } })
    try {
      const ids = await Promise.all(
        Array.from({ length: 30 }, async (_, n) => {
          const job = { type: 'test.echo', payload: n, idempotency_key: `kick-${n}` }
          return ((await (await post(worker.url, '/jobs', job)).json()) as { id: string }).id
        }),
      )
      await expect
        .poll(() => db.query("select id from tidegate.jobs where status = 'completed'"), { timeout: 20_000 })
        .toHaveLength(ids.length)
    } finally {
      await worker.stop()
      await db.close()
    }
  })
})

describe('a worker that is not configured', () => {
  it('says what is missing on every route but /healthz, and fails its cron loudly', async () => {
    const worker = await startWorkerd({ bundle: await bundleWorker(), vars: { TICK_WINDOW_MS: 'soon' } })
    try {
      expect((await fetch(`${worker.url}/healthz`)).status).toBe(200)
      const response = await post(worker.url, '/jobs', {})
      expect(response.status).toBe(503)
      const { code, error } = (await response.json()) as { code: string; error: string }
      expect(code).toBe('not_configured')
      for (const name of ['DATABASE_URL', 'OPERATOR_TOKENS', 'TICK_WINDOW_MS']) expect(error).toContain(name)
      await expect(worker.scheduled()).resolves.toMatchObject({ ok: false })
    } finally {
      await worker.stop()
    }
  })
})

describe('examples/minimal', () => {
  it('builds from the packed package and runs its own job', async () => {
    const db = await createDatabase()
    const worker = await startWorkerd({ bundle: await bundleExample('minimal'), vars: settings(db) })
    try {
      const refused = await post(worker.url, '/jobs', {
        type: 'greet',
        payload: { name: 1 },
        idempotency_key: 'g',
      })
      expect(refused.status).toBe(400)
      const response = await post(worker.url, '/jobs', {
        type: 'greet',
        payload: { name: 'Ann' },
        idempotency_key: 'g',
      })
      const { id } = (await response.json()) as { id: string }
      await worker.scheduled()
      await expect((await get(worker.url, `/jobs/${id}`)).json()).resolves.toMatchObject({
        status: 'completed',
        result: { greeting: 'Hello, Ann!' },
      })
    } finally {
      await worker.stop()
      await db.close()
    }
  })
})
