import { afterAll, beforeAll, describe, expect, it } from 'vitest'

import { statement } from '../../src/client.ts'
import { enqueue, knownTypes } from '../../src/store/enqueue.ts'
import { getJob } from '../../src/store/get.ts'
import { claim, counter, drivers, openStore, put, step, type Store } from '../support/store.ts'

describe.each(drivers)('enqueue over $name', (driver) => {
  let store: Store
  beforeAll(async () => {
    store = await openStore(driver)
  })
  afterAll(() => store.close())

  it('stores the payload as it was sent and answers the whole job', async () => {
    const payload = '{"b": 1,  "a": [1.0, "ü", null]}'
    const job = await put(store.sql, { payload, priority: -3, maxAttempts: 7, idempotencyKey: 'whole' })
    expect(job).toMatchObject({
      type: 't',
      status: 'pending',
      payload,
      priority: -3,
      attempts: 0,
      maxAttempts: 7,
      idempotencyKey: 'whole',
      lastError: null,
      startedAt: null,
      completedAt: null,
    })
    expect(job.id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    expect(job.createdAt).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/)
    expect(job.availableAt).toBe(job.createdAt)
    await expect(getJob(store.sql, job.id)).resolves.toMatchObject({ job })
  })

  it('answers the same job to a repeated key, whatever the order of names in the payload', async () => {
    const first = await enqueue(store.sql, { type: 't', payload: '{"a":1,"b":2}', idempotencyKey: 'again' })
    const again = await enqueue(store.sql, { type: 't', payload: '{"b":2, "a":1}', idempotencyKey: 'again' })
    expect(first).toMatchObject({ outcome: 'created' })
    expect(again).toMatchObject({ outcome: 'replayed', job: 'job' in first ? { id: first.job.id } : {} })
  })

  it.each([
    ['another payload', { type: 't', payload: '{"a":2}' }],
    ['another type', { type: 'u', payload: '{"a":1}' }],
    ['a payload that jsonb cannot hold', { type: 't', payload: '"\\u0000"' }],
  ])('calls a key reused when it comes with %s', async (_what, other) => {
    await enqueue(store.sql, { type: 't', payload: '{"a":1}', idempotencyKey: 'taken' })
    const again = await enqueue(store.sql, { ...other, idempotencyKey: 'taken' })
    expect(again.outcome).toBe('reused')
  })

  it('makes one job of fifty concurrent enqueues with one key, and counts one', async () => {
    const before = await counter(store.db, 'jobs_enqueued_total')
    const connections = Array.from({ length: 10 }, () => store.another())
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, n) =>
        enqueue(connections[n % 10]?.sql ?? store.sql, { type: 't', payload: '{}', idempotencyKey: 'fifty' }),
      ),
    )
    expect(answers.filter(({ outcome }) => outcome === 'created')).toHaveLength(1)
    expect(answers.filter(({ outcome }) => outcome === 'replayed')).toHaveLength(49)
    expect(new Set(answers.map((answer) => 'job' in answer && answer.job.id)).size).toBe(1)
    await expect(counter(store.db, 'jobs_enqueued_total')).resolves.toBe(before + 1)
  })

  it('counts delays from the database clock', async () => {
    const job = await put(store.sql, { delayMs: 90_000 })
    expect(Date.parse(job.availableAt) - Date.parse(job.createdAt)).toBe(90_000)
    const fixed = await put(store.sql, { availableAt: '2030-01-02T03:04:05+01:00' })
    expect(fixed.availableAt).toBe('2030-01-02T02:04:05.000000Z')
  })

  it('refuses an unknown type only when it is asked to', async () => {
    const input = { type: 'nobody', payload: '{}', idempotencyKey: 'nobody' }
    await expect(enqueue(store.sql, { ...input, known: false })).resolves.toEqual({ outcome: 'unknown_type' })
    await step(store.sql)
    await expect(knownTypes(store.sql)).resolves.toEqual(['t', 'u'])
    await expect(enqueue(store.sql, { ...input, type: 'u', known: false })).resolves.toMatchObject({
      outcome: 'created',
    })
    await expect(enqueue(store.sql, { ...input, idempotencyKey: 'n2' })).resolves.toMatchObject({
      outcome: 'created',
    })
  })

  it.each([
    ['type', { type: 'no spaces' }, 'jobs_type_check'],
    ['key', { idempotencyKey: '' }, 'jobs_idempotency_key_check'],
    ['priority', { priority: 101 }, 'jobs_priority_check'],
    ['max attempts', { maxAttempts: 101 }, 'jobs_max_attempts_check'],
    ['payload', { payload: JSON.stringify('x'.repeat(262_144)) }, 'jobs_payload_bytes_check'],
  ])('refuses a %s out of bounds by the name of its constraint', async (_what, fields, constraint) => {
    await expect(put(store.sql, fields)).rejects.toMatchObject({
      kind: 'definite',
      code: '23514',
      constraint,
    })
  })

  it('gives up on a key that an open transaction holds, and finds it free when that rolls back', async () => {
    const holder = await store.db.connect()
    await holder.query('begin')
    await holder.query("select tidegate.enqueue('t', '{}', 'held')")
    await expect(put(store.sql, { idempotencyKey: 'held' })).rejects.toMatchObject({
      kind: 'transient',
      code: '55P03',
    })
    await holder.query('rollback')
    await expect(put(store.sql, { idempotencyKey: 'held' })).resolves.toMatchObject({ status: 'pending' })
  })

  it('waits for the transaction that holds the key and then answers its job', async () => {
    const holder = await store.db.connect()
    await holder.query('begin')
    const { rows } = await holder.query<{ id: string }>(
      "select (job).id from tidegate.enqueue('t', '{}', 'awaited')",
    )
    const waiting = put(store.sql, { idempotencyKey: 'awaited' })
    await untilSomebodyWaits(store)
    await holder.query('commit')
    await expect(waiting).resolves.toMatchObject({ id: rows[0]?.id })
  })

  describe('as a value, in the transaction of its caller', () => {
    const value = (key: string) => statement('t', { n: 1 }, { key, delaySeconds: 0 })

    it('commits with it', async () => {
      const caller = await store.db.connect()
      const { text, params } = value('commits')
      await caller.query('begin')
      const { rows } = await caller.query<{ outcome: string; id: string }>(text, [...params])
      await expect(getJob(store.sql, rows[0]?.id ?? '')).resolves.toBeUndefined()
      await caller.query('commit')
      await expect(getJob(store.sql, rows[0]?.id ?? '')).resolves.toMatchObject({
        job: { payload: '{"n":1}' },
      })
    })

    it('leaves nothing when it rolls back', async () => {
      const caller = await store.db.connect()
      const before = await counter(store.db, 'jobs_enqueued_total')
      const { text, params } = value('rolls-back')
      await caller.query('begin')
      await caller.query(text, [...params])
      await caller.query('rollback')
      await expect(
        store.db.query("select from tidegate.jobs where idempotency_key = 'rolls-back'"),
      ).resolves.toEqual([])
      await expect(counter(store.db, 'jobs_enqueued_total')).resolves.toBe(before)
    })

    it('blocks no claim, settle or other enqueue while it stays open', async () => {
      const caller = await store.db.connect()
      const { text, params } = value('stays-open')
      await caller.query('begin')
      await caller.query(text, [...params])
      const other = await put(store.sql, { type: 'u' })
      const leased = await claim(store.sql, { types: ['u'], limit: 100 })
      expect(leased.map(({ id }) => id)).toContain(other.id)
      await caller.query('rollback')
    })

    it('deadlocks nobody: 16 transactions of three enqueues each, in every order (trap 24)', async () => {
      const types = ['a', 'b', 'c']
      const callers = await Promise.all(Array.from({ length: 16 }, () => store.db.connect()))
      const outcomes = await Promise.allSettled(
        callers.map(async (caller, n) => {
          await caller.query('begin')
          for (let k = 0; k < 3; k += 1) {
            const { text, params } = statement(types[(n + k) % 3] ?? 'a', {}, { key: `deadlock-${n}-${k}` })
            await caller.query(text, [...params])
          }
          await caller.query('commit')
        }),
      )
      expect(outcomes.filter(({ status }) => status === 'rejected')).toEqual([])
      for (const type of types) await expect(counter(store.db, 'jobs_enqueued_total', type)).resolves.toBe(16)
    })
  })
})

async function untilSomebodyWaits(store: Store): Promise<void> {
  for (let tries = 0; tries < 1_000; tries += 1) {
    const rows = await store.db.query(
      "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
    )
    if (rows.length > 0) return
  }
  throw new Error('expected a session to wait for a lock')
}
