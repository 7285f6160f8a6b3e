import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'

import { openPg } from '../../src/db/pg.ts'
import { claimOf, moveClock, step } from '../support/store.ts'
import { interfering, job, openRoot, settings, type Root } from '../support/tick.ts'

describe('tick', () => {
  let root: Root
  beforeEach(async () => {
    root = await openRoot()
  })
  afterEach(() => root.close())

  const putMany = (count: number, type = 't') =>
    Promise.all(Array.from({ length: count }, (_, n) => root.put(type, { n })))
  const statuses = async () => (await root.jobs()).map(({ status }) => status)

  it('runs what is due and reports it', async () => {
    await putMany(3)
    await root.put('t', {}, { delayMs: 60_000 })
    const seen: unknown[] = []
    const report = await root.tick([job((payload) => void seen.push(payload))])
    expect(report).toMatchObject({ claimed: 3, completed: 3, stopped: 'empty', more: false })
    expect(report.nextDueAt).toMatch(/Z$/)
    expect(seen).toHaveLength(3)
    await expect(statuses()).resolves.toEqual(['completed', 'completed', 'completed', 'pending'])
  })

  it('gives a handler its context', async () => {
    const id = await root.put('t', { a: 1 }, { traceparent: '00-1-2-01' })
    const contexts: object[] = []
    await root.tick([
      job(async (payload, context) => {
        const [row] = await context.sql('select 1 as one', [])
        contexts.push({ ...context, payload, row, remaining: context.remainingMs() })
      }),
    ])
    expect(contexts).toMatchObject([
      {
        id,
        type: 't',
        attempt: 1,
        maxAttempts: 5,
        traceparent: '00-1-2-01',
        env: { NAME: 'test' },
        payload: { a: 1 },
        row: { one: 1 },
      },
    ])
  })

  it('gives a job one id for all its attempts, and each run one of its own (trap 19)', async () => {
    const id = await root.put('t')
    const seen: { id: string; run: string; attempt: number }[] = []
    const failing = job((_payload, { id, run, attempt }) => {
      seen.push({ id, run, attempt })
      throw new Error('again')
    })
    await root.tick([failing])
    await root.db.query('update tidegate.jobs set available_at = now()')
    await root.tick([failing])
    expect(seen).toMatchObject([
      { id, attempt: 1 },
      { id, attempt: 2 },
    ])
    expect(seen[0]?.run).not.toBe(seen[1]?.run)
  })

  it.each([-86_400_000, 86_400_000])(
    'asks no clock but the database for what is due: this one is %d ms wrong (trap 16)',
    async (wrong) => {
      const due = await root.put('t')
      const delayed = await root.put('t', {}, { delayMs: 3_600_000 })
      vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + wrong })
      try {
        await expect(root.tick([job(() => undefined)])).resolves.toMatchObject({
          completed: 1,
          stopped: 'empty',
        })
      } finally {
        vi.useRealTimers()
      }
      await expect(root.job(due)).resolves.toMatchObject({ status: 'completed' })
      await expect(root.job(delayed)).resolves.toMatchObject({ status: 'pending', attempts: 0 })
      const [lease] = await root.db.query<{ s: number }>(
        'select abs(extract(epoch from completed_at - clock_timestamp()))::float8 as s from tidegate.jobs where id = $1',
        [due],
      )
      expect(lease?.s).toBeLessThan(3_600)
    },
  )

  it('needs at most 2 + ⌈jobs/batch⌉ round trips, and two when idle', async () => {
    await putMany(100)
    const wide = { settings: { ...settings, concurrency: 25, batch: 25 } }
    const report = await root.tick([job(() => undefined)], {}, wide)
    expect(report.completed).toBe(100)
    expect(report.roundTrips).toBeLessThanOrEqual(2 + 100 / 25)
    await expect(root.tick([job(() => undefined)], {}, wide)).resolves.toMatchObject({
      claimed: 0,
      roundTrips: 2,
    })
  })

  it('runs each of 500 jobs once under 20 overlapping ticks', async () => {
    await putMany(500)
    const runs = new Map<string, number>()
    const counting = job((_payload, { id }) => void runs.set(id, (runs.get(id) ?? 0) + 1))
    const reports = await Promise.all(Array.from({ length: 20 }, () => root.tick([counting])))
    expect(reports.reduce((sum, { completed }) => sum + completed, 0)).toBe(500)
    expect([...runs.values()].every((count) => count === 1)).toBe(true)
    expect(runs.size).toBe(500)
    expect(new Set(await statuses())).toEqual(new Set(['completed']))
  })

  it('leases no more than it runs at once, so no lease runs out in a waiting line (trap 8)', async () => {
    await putMany(30)
    let most = 0
    const tracking = job(async () => {
      const leased = await root.db.query("select from tidegate.jobs where status = 'running'")
      most = Math.max(most, leased.length)
    })
    await root.tick([tracking], {}, { settings: { ...settings, concurrency: 4, batch: 10 } })
    expect(most).toBe(4)
  })

  it('settles what has finished while a slow neighbour still runs', async () => {
    await root.put('t', 'slow', { priority: 1 })
    const fast = await root.put('t', 'fast')
    const seen: unknown[] = []
    const slowUntilFastIsSettled = job(async (payload) => {
      if (payload === 'fast') return
      for (;;) {
        const { status } = await root.job(fast)
        if (status === 'completed') break
      }
      seen.push('slow saw fast completed')
    })
    await expect(root.tick([slowUntilFastIsSettled])).resolves.toMatchObject({ completed: 2 })
    expect(seen).toHaveLength(1)
  })

  it('splits settles by their bytes', async () => {
    await putMany(10)
    const result = 'x'.repeat(50_000)
    const sizes: number[] = []
    const report = await root.tick(
      [job(() => result)],
      {},
      {
        settings: { ...settings, claimBytes: 240_000 },
        openDatabase: () => {
          const database = openPg({ url: root.db.url })
          return {
            ...database,
            sql(text, params) {
              sizes.push(String(params[0]).length)
              return database.sql(text, params)
            },
          }
        },
      },
    )
    expect(report).toMatchObject({ completed: 10, stopped: 'empty' })
    expect(Math.max(...sizes)).toBeLessThan(122_000)
    expect(sizes.length).toBeGreaterThanOrEqual(6)
  })

  it('stops at maxJobs and says that more is due', async () => {
    await putMany(7)
    const report = await root.tick([job(() => undefined)], { maxJobs: 3 })
    expect(report).toMatchObject({ claimed: 3, completed: 3, stopped: 'limit', more: true })
  })

  it('leaves a type alone whose timeout does not fit into the window', async () => {
    const long = await root.put('long')
    const short = await root.put('t')
    const jobs = [
      job(() => undefined, { type: 'long', timeout: 10_000 }),
      job(() => undefined, { timeout: 1_000 }),
    ]
    const report = await root.tick(jobs, { windowMs: 5_000 })
    expect(report).toMatchObject({ completed: 1, stopped: 'deadline', more: true })
    await expect(root.job(long)).resolves.toMatchObject({ status: 'pending', attempts: 0, started_at: null })
    await expect(root.job(short)).resolves.toMatchObject({ status: 'completed' })
  })

  it('admits by the time that is left, not only at its start (trap 2)', async () => {
    await putMany(5)
    let now = 0
    const report = await root.tick(
      [job(() => void (now += 4_000), { timeout: 5_000 })],
      { windowMs: 12_000 },
      {
        clock: () => now,
        settings: { ...settings, concurrency: 1, batch: 1 },
      },
    )
    expect(report).toMatchObject({ completed: 2, stopped: 'deadline', more: true })
    await expect(statuses()).resolves.toEqual(['completed', 'completed', 'pending', 'pending', 'pending'])
  })

  it('releases what it leased when the answer came too late to begin', async () => {
    await putMany(2)
    let now = 0
    const report = await root.tick(
      [job(() => undefined, { timeout: 5_000 })],
      { windowMs: 12_000 },
      {
        clock: () => now,
        openDatabase: () =>
          interfering(openPg({ url: root.db.url }), async (call) => {
            const answer = await call()
            now += 8_000
            return answer
          }),
      },
    )
    expect(report).toMatchObject({ claimed: 2, completed: 0, released: 2 })
    for (const row of await root.jobs())
      expect(row).toMatchObject({ status: 'pending', attempts: 0, last_error: null })
  })

  it('recovers expired leases, even of types that it has no handler for', async () => {
    const own = await root.put('t')
    const foreign = await root.put('u', {}, { maxAttempts: 1 })
    const { sql, close } = openPg({ url: root.db.url })
    await step(sql)
    await step(sql, { claim: claimOf({ leaseMs: 1_000 }) })
    await close()
    await moveClock(root.db, 2_000)
    const report = await root.tick([job(() => undefined)])
    expect(report).toMatchObject({ reaped: 2, dead: 1, claimed: 0 })
    await expect(root.job(own)).resolves.toMatchObject({ status: 'pending', suspect: true, attempts: 1 })
    await expect(root.job(foreign)).resolves.toMatchObject({
      status: 'dead',
      last_error: expect.stringContaining('lease ended') as string,
    })
  })

  it('refuses a database of another environment and says both names', async () => {
    await root.put('t')
    const report = await root.tick([job(() => undefined)], {}, { environment: 'preview' })
    expect(report).toMatchObject({ claimed: 0, stopped: 'wrong_database', roundTrips: 1 })
    expect(report.error).toMatch(/"test".*"preview"/)
    await expect(statuses()).resolves.toEqual(['pending'])
  })

  it('reports a database that is away, before its deadline', async () => {
    const report = await root.tick(
      [job(() => undefined)],
      { windowMs: 300 },
      {
        openDatabase: () => openPg({ url: 'postgres://nobody@127.0.0.1:1/none' }),
      },
    )
    expect(report).toMatchObject({ stopped: 'error', claimed: 0 })
    expect(report.error).toMatch(/ECONNREFUSED/)
  })

  it('reconnects after its connection was cut, and settles', async () => {
    const id = await root.put('t')
    const report = await root.tick(
      [
        job(() =>
          root.db.query(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'tidegate' and datname = current_database()",
          ),
        ),
      ].map((definition) => ({ ...definition })),
    )
    expect(report).toMatchObject({ completed: 1, stopped: 'empty' })
    await expect(root.job(id)).resolves.toMatchObject({ status: 'completed', attempts: 1 })
  })

  it('pushes one snapshot at its end, and a failing gateway fails nothing', async () => {
    await root.put('t')
    const pushes: number[] = []
    const push = async (sequence: number, metrics: readonly { readonly name: string }[]) => {
      pushes.push(sequence)
      expect(metrics.map(({ name }) => name)).toContain('jobs_enqueued_total')
      return 'the gateway answered 500'
    }
    await expect(root.tick([job(() => undefined)], {}, { push })).resolves.toMatchObject({
      stopped: 'empty',
      completed: 1,
    })
    await moveClock(root.db, settings.pushLeaseMs + 1)
    await root.tick([job(() => undefined)], {}, { push })
    expect(pushes).toEqual([1, 2])
    expect(root.logged.filter(({ event }) => event === 'push failed')).toHaveLength(2)
  })

  it('leaves no transaction and no connection behind (G9)', async () => {
    await putMany(5)
    await root.tick([job(() => undefined)])
    const sessions = await root.db.query(
      "select state from pg_stat_activity where application_name = 'tidegate' and datname = current_database() and state <> 'idle'",
    )
    expect(sessions).toEqual([])
  })
})
