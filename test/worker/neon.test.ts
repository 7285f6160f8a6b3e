import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest'

import { bundleWorker } from '../../scripts/workerd/bundle.ts'
import { startWorkerd, type Workerd } from '../../scripts/workerd.ts'
import { openNeon } from '../../src/db/neon.ts'
import { persist } from '../../src/persist.ts'
import { enqueue } from '../../src/store/enqueue.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { startNeonEndpoint, type NeonEndpoint } from '../support/neon-endpoint.ts'
import { counter } from '../support/store.ts'

const BATCH = 10

describe('the shipped bundle over Neon HTTP', () => {
  let db: TestDatabase
  let endpoint: NeonEndpoint
  let worker: Workerd

  beforeAll(async () => {
    db = await createDatabase()
    endpoint = await startNeonEndpoint({ server: inject('postgres').url })
    worker = await startWorkerd({
      bundle: await bundleWorker(),
      vars: {
        DATABASE_URL: db.url,
        DATABASE_DRIVER: 'neon',
        NEON_ENDPOINT: endpoint.url,
        TIDEGATE_ENV: 'test',
        OPERATOR_TOKENS: 'operator-secret-of-tests',
        TICK_CONCURRENCY: String(BATCH),
        KICK: 'off',
      },
    })
  })
  afterAll(async () => {
    await worker.stop()
    await endpoint[Symbol.asyncDispose]()
    await db.close()
  })
  beforeEach(async () => {
    endpoint.failWith(() => undefined)
    await db.query('truncate tidegate.jobs, tidegate.counters, tidegate.counter_deltas, tidegate.ticks')
  })

  /** Enqueues that many jobs, twenty at a time, each again and again until its answer comes. */
  const enqueueAll = async (jobs: number) => {
    const database = openNeon({ url: db.url, endpoint: endpoint.url })
    const persistence = { remainingMs: () => 20_000, random: Math.random, onRepeat: () => undefined }
    let next = 0
    const enqueueSome = async () => {
      while (next < jobs) {
        next += 1
        const input = { type: 'test.echo', payload: '{}', idempotencyKey: `job-${next}` }
        await persist(() => enqueue(database.sql, input), persistence)
      }
    }
    await Promise.all(Array.from({ length: 20 }, enqueueSome))
    await database.close()
  }
  const requestsOfTick = async () => {
    const before = endpoint.requests.length
    await expect(worker.scheduled()).resolves.toEqual({ ok: true, outcome: 'ok' })
    return endpoint.requests.length - before
  }
  const statuses = () =>
    db.query('select status, attempts, count(*)::integer as jobs from tidegate.jobs group by 1, 2')
  const unfinished = () =>
    db.query("select from tidegate.jobs where status in ('pending', 'running') limit 1")

  it('works twice in one isolate, and an idle tick takes at most two requests', async () => {
    for (const n of [1, 2]) {
      await enqueueAll(1)
      await expect(requestsOfTick()).resolves.toBeLessThanOrEqual(3)
      await expect(requestsOfTick()).resolves.toBeLessThanOrEqual(2)
      await expect(counter(db, 'jobs_processed_total', 'test.echo', 'completed')).resolves.toBe(n)
      await db.query('delete from tidegate.jobs')
    }
  })

  it('drains 100 short jobs with at most 2 + ⌈jobs/batch⌉ requests', async () => {
    await enqueueAll(100)
    await expect(requestsOfTick()).resolves.toBeLessThanOrEqual(2 + Math.ceil(100 / BATCH))
    await expect(statuses()).resolves.toEqual([{ status: 'completed', attempts: 1, jobs: 100 }])
  })

  it('loses none of 2,000 jobs and settles none twice while every tenth answer is lost after its commit', async () => {
    let lost = 0
    endpoint.failWith((number) => {
      if (number % 10 !== 0) return undefined
      lost += 1
      return { at: 'commit', what: 'close' }
    })
    await enqueueAll(2_000)
    for (let ticks = 0; ticks < 20 && (await unfinished()).length > 0; ticks += 1) await worker.scheduled()
    expect(lost).toBeGreaterThan(220)
    await expect(statuses()).resolves.toEqual([{ status: 'completed', attempts: 1, jobs: 2_000 }])
    await expect(counter(db, 'jobs_enqueued_total', 'test.echo')).resolves.toBe(2_000)
    await expect(counter(db, 'jobs_processed_total', 'test.echo', 'completed')).resolves.toBe(2_000)
    await expect(counter(db, 'jobs_processed_total', 'test.echo', 'failed')).resolves.toBe(0)
    await expect(counter(db, 'jobs_lease_lost_total', '')).resolves.toBe(0)
  })
})
