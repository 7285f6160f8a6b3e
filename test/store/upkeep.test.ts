import { afterEach, beforeEach, describe, expect, it } from 'vitest'

import { close, type CloseRequest } from '../../src/store/close.ts'
import { readMetrics } from '../../src/store/metrics.ts'
import { cancel, requeue } from '../../src/store/operate.ts'
import { pushed } from '../../src/store/pushed.ts'
import {
  claim,
  counter,
  dead,
  drivers,
  environment,
  openStore,
  put,
  retry,
  settle,
  step,
  type Store,
} from '../support/store.ts'

describe.each(drivers)('upkeep over $name', (driver) => {
  let store: Store
  beforeEach(async () => {
    store = await openStore(driver)
    await step(store.sql)
  })
  afterEach(() => store.close())

  const closeTick = (request: Partial<CloseRequest> = {}) =>
    close(store.sql, {
      environment,
      tick: crypto.randomUUID(),
      types: ['t', 'u'],
      settles: [],
      retention: { completedSeconds: 60, cancelledSeconds: 60, deadSeconds: 120 },
      prune: 100,
      fold: 1_000,
      record: { stopped: 'empty', durationMs: 5, report: {} },
      ...request,
    })
  const statuses = async () =>
    (await store.db.query<{ status: string }>('select status from tidegate.jobs order by id')).map(
      ({ status }) => status,
    )

  it('prunes what is finished and old enough, and never what is not finished', async () => {
    for (let n = 0; n < 5; n += 1) await put(store.sql)
    const [done, failed, running] = await claim(store.sql, { limit: 3 })
    await settle(store.sql, [done ?? { id: '', token: '' }], { kind: 'complete' })
    await settle(store.sql, [failed ?? { id: '', token: '' }], dead())
    const [, , , fourth] = await store.db.query<{ id: string }>('select id from tidegate.jobs order by id')
    await cancel(store.sql, fourth?.id ?? '')
    expect(running).toBeDefined()
    await expect(closeTick()).resolves.toMatchObject({ pruned: 0 })
    await store.moveClock(61_000)
    await expect(closeTick()).resolves.toMatchObject({ pruned: 2 })
    await expect(statuses()).resolves.toEqual(['dead', 'running', 'pending'])
    await store.moveClock(10_000_000_000)
    await expect(closeTick()).resolves.toMatchObject({ pruned: 1 })
    await expect(statuses()).resolves.toEqual(['running', 'pending'])
    await expect(counter(store.db, 'jobs_pruned_total', '', 'completed')).resolves.toBe(1)
  })

  it('prunes in bounded steps (trap 18), and nothing that is kept for ever', async () => {
    for (let n = 0; n < 7; n += 1) await put(store.sql)
    await settle(store.sql, await claim(store.sql), { kind: 'complete' })
    await store.moveClock(61_000)
    await expect(
      closeTick({ retention: { completedSeconds: null, cancelledSeconds: null, deadSeconds: null } }),
    ).resolves.toMatchObject({ pruned: 0 })
    await expect(closeTick({ prune: 5 })).resolves.toMatchObject({ pruned: 5 })
    await expect(closeTick({ prune: 5 })).resolves.toMatchObject({ pruned: 2 })
  })

  it('frees the key of a pruned job', async () => {
    const first = await put(store.sql, { idempotencyKey: 'k' })
    await settle(store.sql, await claim(store.sql), { kind: 'complete' })
    await store.moveClock(61_000)
    await closeTick()
    const second = await put(store.sql, { idempotencyKey: 'k' })
    expect(second.id).not.toBe(first.id)
  })

  it('folds a bounded number of changes and shows the same counters before and after', async () => {
    for (let n = 0; n < 9; n += 1) await put(store.sql, { type: n % 2 === 0 ? 't' : 'u' })
    const enqueued = async () =>
      (await readMetrics(store.sql))
        .filter(({ name }) => name === 'jobs_enqueued_total')
        .sort((a, b) => a.type.localeCompare(b.type))
    const expected = [
      { name: 'jobs_enqueued_total', type: 't', label: '', value: 5 },
      { name: 'jobs_enqueued_total', type: 'u', label: '', value: 4 },
    ]
    await expect(enqueued()).resolves.toEqual(expected)
    await closeTick({ fold: 4 })
    await expect(enqueued()).resolves.toEqual(expected)
    const [left] = await store.db.query<{ n: number }>(
      "select count(*)::integer as n from tidegate.counter_deltas where name = 'jobs_enqueued_total'",
    )
    expect(left?.n).toBe(5)
    await closeTick()
    await closeTick()
    await expect(enqueued()).resolves.toEqual(expected)
  })

  it('loses no change when ten fold at once', async () => {
    for (let n = 0; n < 60; n += 1) await put(store.sql)
    const sessions = Array.from({ length: 10 }, () => store.another())
    await Promise.all(
      sessions.map(({ sql }) =>
        close(sql, {
          environment,
          tick: crypto.randomUUID(),
          types: [],
          settles: [],
          prune: 0,
          fold: 7,
          retention: { completedSeconds: null, cancelledSeconds: null, deadSeconds: null },
          record: { stopped: 'empty', durationMs: 1, report: {} },
        }),
      ),
    )
    await expect(counter(store.db, 'jobs_enqueued_total')).resolves.toBe(60)
    await expect(counter(store.db, 'ticks_total', '', 'empty')).resolves.toBe(10)
  })

  it('records a tick once, however often the call is repeated', async () => {
    const tick = crypto.randomUUID()
    await closeTick({ tick })
    await closeTick({ tick })
    await expect(store.db.query('select stopped from tidegate.ticks')).resolves.toEqual([
      { stopped: 'empty' },
    ])
    await expect(counter(store.db, 'ticks_total', '', 'empty')).resolves.toBe(1)
  })

  it('says when the next job falls due and whether one is due now, paused types left out', async () => {
    await expect(closeTick()).resolves.toMatchObject({ nextDueAt: null, more: false })
    const later = await put(store.sql, { delayMs: 60_000, priority: 9 })
    await put(store.sql, { delayMs: 90_000, type: 'u' })
    await expect(closeTick()).resolves.toMatchObject({ nextDueAt: later.availableAt, more: false })
    await put(store.sql, { type: 'u' })
    await expect(closeTick()).resolves.toMatchObject({ more: true })
    await store.db.query("update tidegate.types set paused_at = now() where type = 'u'")
    await expect(closeTick()).resolves.toMatchObject({ nextDueAt: later.availableAt, more: false })
  })

  it('lets one at a time push, under a number that only grows', async () => {
    const first = await closeTick({ pushLeaseMs: 30_000 })
    expect(first.push?.sequence).toBe(1)
    expect(first.push?.metrics.map(({ name }) => name)).toContain('jobs_in_flight')
    await expect(closeTick({ pushLeaseMs: 30_000 })).resolves.toMatchObject({ push: undefined })
    await pushed(store.sql, 1, 'the gateway answered 500')
    await pushed(store.sql, 1, 'the gateway answered 500')
    await expect(counter(store.db, 'metrics_push_failures_total', '')).resolves.toBe(1)
    // The gateway, or a proxy before it, may still do what it failed to do in time.
    await expect(closeTick({ pushLeaseMs: 30_000 })).resolves.toMatchObject({ push: undefined })
    await store.moveClock(30_001)
    await expect(closeTick({ pushLeaseMs: 30_000 })).resolves.toMatchObject({ push: { sequence: 2 } })
    await pushed(store.sql, 2, null)
    await pushed(store.sql, 2, 'repeated')
    await expect(counter(store.db, 'metrics_push_failures_total', '')).resolves.toBe(1)
    await expect(closeTick({ pushLeaseMs: 30_000 })).resolves.toMatchObject({ push: { sequence: 3 } })
  })

  it('requeues what is dead or cancelled, with all its attempts and a note of who did it', async () => {
    const job = await put(store.sql, { maxAttempts: 1 })
    await expect(requeue(store.sql, job.id, 'ann')).resolves.toMatchObject({
      outcome: 'conflict',
      job: { status: 'pending' },
    })
    await settle(store.sql, await claim(store.sql), dead({ crashed: true, outcome: 'crashed' }))
    await expect(requeue(store.sql, job.id, 'ann')).resolves.toMatchObject({
      outcome: 'ok',
      job: {
        status: 'pending',
        attempts: 0,
        lastError: null,
        suspect: false,
        diedAt: null,
        cancelRequestedAt: null,
      },
    })
    await cancel(store.sql, job.id)
    await expect(requeue(store.sql, job.id, 'bob')).resolves.toMatchObject({ outcome: 'ok' })
    const [row] = await store.db.query<{ requeues: object[] }>('select requeues from tidegate.jobs')
    expect(row?.requeues).toMatchObject([
      { by: 'ann', from: 'dead', attempts: 1 },
      { by: 'bob', from: 'cancelled' },
    ])
    await expect(requeue(store.sql, crypto.randomUUID(), 'ann')).resolves.toEqual({ outcome: 'not_found' })
    await expect(counter(store.db, 'jobs_requeued_total')).resolves.toBe(2)
  })

  it('cancels a pending job once, and no finished one', async () => {
    const job = await put(store.sql)
    await expect(cancel(store.sql, job.id)).resolves.toMatchObject({
      outcome: 'ok',
      job: { status: 'cancelled' },
    })
    await expect(cancel(store.sql, job.id)).resolves.toMatchObject({
      outcome: 'conflict',
      job: { status: 'cancelled' },
    })
    await expect(claim(store.sql)).resolves.toEqual([])
    await expect(cancel(store.sql, crypto.randomUUID())).resolves.toEqual({ outcome: 'not_found' })
  })

  it('settles with the last call of a tick too', async () => {
    await put(store.sql)
    const [leased] = await claim(store.sql)
    const settles = leased === undefined ? [] : [{ id: leased.id, token: leased.token, settlement: retry() }]
    const { verdicts } = await closeTick({ settles })
    expect([...verdicts.values()]).toEqual([{ verdict: 'settled', status: 'pending' }])
  })
})
