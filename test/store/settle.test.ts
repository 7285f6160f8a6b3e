import { afterEach, beforeEach, describe, expect, it } from 'vitest'

import { cancel, requeue } from '../../src/store/operate.ts'
import { getJob } from '../../src/store/get.ts'
import type { LeasedJob } from '../../src/store/work.ts'
import {
  claim,
  counter,
  dead,
  drivers,
  openStore,
  put,
  retry,
  settle,
  step,
  type Store,
} from '../support/store.ts'

describe.each(drivers)('settle over $name', (driver) => {
  let store: Store
  beforeEach(async () => {
    store = await openStore(driver)
    await step(store.sql)
  })
  afterEach(() => store.close())

  const leaseOne = async (): Promise<LeasedJob> => {
    await put(store.sql)
    const [leased] = await claim(store.sql, { limit: 1 })
    if (leased === undefined) throw new Error('expected a lease')
    return leased
  }
  const read = async ({ id }: { readonly id: string }) => (await getJob(store.sql, id))?.job

  it('completes with a result, kept as it was sent', async () => {
    const leased = await leaseOne()
    await expect(
      settle(store.sql, [leased], { kind: 'complete', result: '{"b": 1, "a": "\\u0000"}' }),
    ).resolves.toEqual(['settled'])
    await expect(read(leased)).resolves.toMatchObject({
      status: 'completed',
      attempts: 1,
      result: '{"b": 1, "a": "\\u0000"}',
      completedAt: expect.stringMatching(/Z$/) as string,
    })
  })

  it('retries after its delay by the database clock and remembers the failure', async () => {
    const leased = await leaseOne()
    await settle(store.sql, [leased], retry({ delayMs: 5_000, code: 'timeout', outcome: 'timed_out' }))
    const job = await read(leased)
    expect(job).toMatchObject({ status: 'pending', attempts: 1, lastError: 'it broke', suspect: false })
    expect(Date.parse(job?.availableAt ?? '') - Date.parse(job?.updatedAt ?? '')).toBe(5_000)
    const [row] = await store.db.query('select history, lease_until from tidegate.jobs')
    expect(row).toMatchObject({
      history: [{ attempt: 1, outcome: 'timed_out', code: 'timeout', error: 'it broke' }],
      lease_until: null,
    })
  })

  it('keeps a retry until the lease ends when the handler has not returned', async () => {
    await put(store.sql)
    const [leased] = await claim(store.sql, { leaseMs: 60_000 })
    const [before] = await store.db.query<{ lease_until: Date }>('select lease_until from tidegate.jobs')
    await settle(store.sql, leased === undefined ? [] : [leased], retry({ held: true }))
    const [after] = await store.db.query<{ available_at: Date }>('select available_at from tidegate.jobs')
    expect(after?.available_at).toEqual(before?.lease_until)
  })

  it.each([
    ['dead', dead({ held: true }), (_id: string) => undefined],
    ['retried, then cancelled', retry({ held: true }), (id: string) => cancel(store.sql, id)],
  ])(
    'keeps a requeue until the lease ends when the handler has not returned and the job is %s (G5)',
    async (_what, settlement, then) => {
      const leased = await leaseOne()
      const [before] = await store.db.query<{ lease_until: Date }>('select lease_until from tidegate.jobs')
      await settle(store.sql, [leased], settlement)
      await then(leased.id)
      await requeue(store.sql, leased.id, 'ann')
      const [after] = await store.db.query<{ available_at: Date }>('select available_at from tidegate.jobs')
      expect(after?.available_at).toEqual(before?.lease_until)
      await expect(claim(store.sql)).resolves.toEqual([])
    },
  )

  it('ends dead with its error', async () => {
    const leased = await leaseOne()
    await settle(store.sql, [leased], dead())
    await expect(read(leased)).resolves.toMatchObject({ status: 'dead', lastError: 'it broke for good' })
    await expect(counter(store.db, 'jobs_died_total')).resolves.toBe(1)
  })

  it('gives the attempt back on release, and the place in the queue; on snooze the attempt only', async () => {
    const released = await leaseOne()
    const { availableAt } = (await read(released)) ?? { availableAt: '' }
    await settle(store.sql, [released], { kind: 'release' })
    await expect(read(released)).resolves.toMatchObject({ status: 'pending', attempts: 0, availableAt })
    const [again] = await claim(store.sql)
    await settle(store.sql, again === undefined ? [] : [again], {
      kind: 'snooze',
      delayMs: 60_000,
      outcome: 'snoozed',
    })
    const job = await read(released)
    expect(job).toMatchObject({ status: 'pending', attempts: 0 })
    expect(Date.parse(job?.availableAt ?? '')).toBeGreaterThan(Date.parse(availableAt) + 59_000)
    await expect(store.db.query('select refunds from tidegate.jobs')).resolves.toEqual([{ refunds: 2 }])
  })

  it('says already to a repeated settle and changes nothing by it', async () => {
    const leased = await leaseOne()
    await settle(store.sql, [leased], { kind: 'complete' })
    const before = await store.db.query('select * from tidegate.jobs')
    await expect(settle(store.sql, [leased], retry())).resolves.toEqual(['already'])
    await expect(store.db.query('select * from tidegate.jobs')).resolves.toEqual(before)
    await expect(counter(store.db, 'jobs_processed_total', 't', 'completed')).resolves.toBe(1)
  })

  it("a stale lease token cannot settle: a zombie's late settle changes nothing (trap 3)", async () => {
    const zombie = await leaseOne()
    await store.moveClock(120_000)
    const { expired } = await step(store.sql, { expired: 1 })
    await settle(
      store.sql,
      expired,
      retry({ crashed: true, outcome: 'crashed', error: 'crashed', delayMs: 0 }),
    )
    await expect(settle(store.sql, [zombie], { kind: 'complete' })).resolves.toEqual(['lost'])
    const [second] = await claim(store.sql, { suspects: true })
    expect(second).toMatchObject({ id: zombie.id, attempt: 2 })
    const before = await store.db.query('select * from tidegate.jobs')
    await expect(settle(store.sql, [zombie], { kind: 'complete' })).resolves.toEqual(['lost'])
    await expect(store.db.query('select * from tidegate.jobs')).resolves.toEqual(before)
    await expect(counter(store.db, 'jobs_lease_lost_total', '')).resolves.toBe(2)
  })

  it('says lost of a job that is gone', async () => {
    const leased = await leaseOne()
    await store.db.query('delete from tidegate.jobs')
    await expect(settle(store.sql, [leased], { kind: 'complete' })).resolves.toEqual(['lost'])
  })

  it('settles a mixed batch in one call and gives each its verdict', async () => {
    for (let n = 0; n < 6; n += 1) await put(store.sql)
    const leased = await claim(store.sql)
    const settlements = [
      { kind: 'complete' } as const,
      retry(),
      dead(),
      { kind: 'release' } as const,
      { kind: 'snooze', delayMs: 1_000, outcome: 'snoozed' } as const,
    ]
    const settles = leased.map(({ id, token }, n) => ({
      id,
      token: n === 5 ? crypto.randomUUID() : token,
      settlement: settlements[n] ?? { kind: 'complete' as const },
      durationMs: 200,
    }))
    const { verdicts } = await step(store.sql, { settles: settles.toReversed() })
    expect(leased.map(({ id }) => verdicts.get(id))).toEqual([
      { verdict: 'settled', status: 'completed' },
      { verdict: 'settled', status: 'pending' },
      { verdict: 'settled', status: 'dead' },
      { verdict: 'settled', status: 'pending' },
      { verdict: 'settled', status: 'pending' },
      { verdict: 'lost', status: 'running' },
    ])
    const value = (name: string, label = '') => counter(store.db, name, 't', label)
    await expect(value('jobs_processed_total', 'completed')).resolves.toBe(1)
    await expect(value('jobs_processed_total', 'failed')).resolves.toBe(2)
    await expect(value('jobs_released_total')).resolves.toBe(1)
    await expect(value('jobs_snoozed_total')).resolves.toBe(1)
    await expect(value('job_processing_duration_us', '0.25')).resolves.toBe(5)
    await expect(value('job_processing_duration_us', 'sum')).resolves.toBe(1_000_000)
  })

  it('marks a crash as suspect and lets the mark go with the next settle', async () => {
    const leased = await leaseOne()
    await settle(store.sql, [leased], retry({ crashed: true, outcome: 'crashed', delayMs: 0 }))
    await expect(read(leased)).resolves.toMatchObject({ status: 'pending', suspect: true, attempts: 1 })
    await expect(counter(store.db, 'jobs_reaped_total')).resolves.toBe(1)
    const [alone] = await claim(store.sql, { suspects: true })
    await settle(store.sql, alone === undefined ? [] : [alone], retry())
    await expect(read(leased)).resolves.toMatchObject({ suspect: false })
  })

  it.each([
    ['a success', { kind: 'complete' } as const, 'completed'],
    ['a retry', retry(), 'cancelled'],
    ['a snooze', { kind: 'snooze', delayMs: 1_000, outcome: 'snoozed' } as const, 'cancelled'],
    ['a release', { kind: 'release' } as const, 'cancelled'],
    ['a recovery', retry({ crashed: true }), 'cancelled'],
    ['the recovery of the last attempt', dead({ crashed: true }), 'cancelled'],
    ['a final failure', dead(), 'dead'],
  ])('with a cancel mark %s ends %s', async (_what, settlement, status) => {
    const leased = await leaseOne()
    await expect(cancel(store.sql, leased.id)).resolves.toMatchObject({
      outcome: 'ok',
      job: { status: 'running' },
    })
    await settle(store.sql, [leased], settlement)
    await expect(read(leased)).resolves.toMatchObject({ status })
    await expect(counter(store.db, 'jobs_cancelled_total')).resolves.toBe(status === 'cancelled' ? 1 : 0)
  })

  it('inserts follow-ups with the completion: all, once, with keys of their own', async () => {
    const leased = await leaseOne()
    const followUps = [
      { type: 'u', payload: '{"b": 1, "a": 2}', priority: 3 },
      { type: 'u', payload: '2', delayMs: 60_000, maxAttempts: 9 },
    ]
    await settle(store.sql, [leased], { kind: 'complete' }, { followUps })
    await settle(store.sql, [leased], { kind: 'complete' }, { followUps })
    const rows = await store.db.query(
      "select idempotency_key, payload::text, priority, max_attempts from tidegate.jobs where type = 'u' order by 1",
    )
    expect(rows).toEqual([
      { idempotency_key: `${leased.id}:1`, payload: '{"b": 1, "a": 2}', priority: 3, max_attempts: 5 },
      { idempotency_key: `${leased.id}:2`, payload: '2', priority: 0, max_attempts: 9 },
    ])
    await expect(counter(store.db, 'jobs_enqueued_total', 'u')).resolves.toBe(2)
  })

  it('inserts no follow-up for a run that lost its lease or did not succeed', async () => {
    const followUps = [{ type: 'u', payload: '1' }]
    const leased = await leaseOne()
    await settle(store.sql, [{ ...leased, token: crypto.randomUUID() }], { kind: 'complete' }, { followUps })
    await settle(store.sql, [leased], retry(), { followUps })
    await expect(store.db.query("select from tidegate.jobs where type = 'u'")).resolves.toEqual([])
  })

  it('keeps the last twenty runs that did not succeed', async () => {
    await put(store.sql, { maxAttempts: 30 })
    for (let n = 0; n < 23; n += 1) {
      await store.moveClock((n + 1) * 3_600_000)
      await settle(store.sql, await claim(store.sql), retry({ delayMs: 1_000 }))
    }
    const [row] = await store.db.query<{ history: { attempt: number }[] }>(
      'select history from tidegate.jobs',
    )
    expect(row?.history.map(({ attempt }) => attempt)).toEqual(Array.from({ length: 20 }, (_, n) => n + 4))
  })

  it('deadlocks never: two sessions settle the same rows in opposite orders', async () => {
    for (let n = 0; n < 40; n += 1) await put(store.sql)
    const leased = await claim(store.sql, { limit: 40 })
    const sessions = [store.another(), store.another(), store.another(), store.another()]
    const verdicts = await Promise.all(
      sessions.map(({ sql }, n) =>
        settle(sql, n % 2 === 0 ? leased : leased.toReversed(), { kind: 'complete' }),
      ),
    )
    const words = verdicts.flat()
    expect(words.filter((verdict) => verdict === 'settled')).toHaveLength(40)
    expect(words.filter((verdict) => verdict === 'already')).toHaveLength(120)
  })
})
