import { afterEach, beforeEach, describe, expect, it } from 'vitest'

import { openPg, type PgOptions } from '../../src/db/pg.ts'
import type { Database } from '../../src/db/sql.ts'
import type { TickReport } from '../../src/report.ts'
import { startProxy, type Proxy } from '../faults/proxy.ts'
import { begin, blocks } from '../support/sessions.ts'
import type { TestDatabase } from '../support/database.ts'
import { counter, moveClock } from '../support/store.ts'
import { interfering, job, openRoot, settings, type Root } from '../support/tick.ts'

describe('a tick whose way to the database breaks', () => {
  let root: Root
  let proxy: Proxy
  beforeEach(async () => {
    root = await openRoot()
    proxy = await startProxy(Number(new URL(root.db.url).port))
  })
  afterEach(async () => {
    await proxy.close()
    await root.close()
  })

  const throughProxy = (options: Partial<PgOptions> = {}): Database => {
    const url = Object.assign(new URL(root.db.url), { port: String(proxy.port) })
    return openPg({ url: url.href, ...options })
  }
  const putMany = (count: number) => Promise.all(Array.from({ length: count }, (_, n) => root.put('t', n)))
  const nothing = job(() => undefined)
  const twoByTwo = { ...settings, concurrency: 2, batch: 2 }
  /** The SQLSTATEs after which calls were repeated; undefined stands for a lost connection. */
  const repeats = () =>
    root.logged.filter(({ event }) => event === 'database call repeated').map(({ code }) => code)
  const completed = () => counter(root.db, 'jobs_processed_total', 't', 'completed')

  describe.each([
    { when: 'before it has sent', how: 'before' },
    { when: 'after the commit of', how: 'after' },
    { when: 'inside the answer of', how: 'half' },
  ] as const)('that loses its connection $when', ({ how }) => {
    it.each([1, 2, 3, 4])(
      'call %i of 4 runs every job once and counts everything once (G8)',
      async (call) => {
        await putMany(5)
        proxy.arm(how, call - 1, 0)
        const ran: number[] = []
        const noting = job((payload) => void ran.push(Number(payload)))
        const report = await root.tick([noting], {}, { openDatabase: throughProxy, settings: twoByTwo })
        expect(repeats()).toEqual([undefined])
        expect(ran.toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3, 4])
        expect(report).toMatchObject({
          claimed: 5,
          completed: 5,
          lost: 0,
          released: 0,
          stopped: 'empty',
          more: false,
        })
        for (const row of await root.jobs()) expect(row).toMatchObject({ status: 'completed', attempts: 1 })
        await expect(completed()).resolves.toBe(5)
        await expect(counter(root.db, 'jobs_lease_lost_total', '')).resolves.toBe(0)
        await expect(counter(root.db, 'ticks_total', '', 'empty')).resolves.toBe(1)
        await expect(root.db.query('select from tidegate.ticks')).resolves.toHaveLength(1)
      },
    )
  })

  it('repeats a settle whose answer was lost by its token, learns that it was settled already, and counts it', async () => {
    const id = await root.put('t')
    proxy.arm('after', 1, 0)
    const verdicts: unknown[] = []
    const watched = () =>
      interfering(throughProxy(), async (call) => {
        const rows = await call()
        verdicts.push(
          ...rows.filter(({ kind }) => kind === 'verdict').map(({ data }) => JSON.parse(String(data))),
        )
        return rows
      })
    const failing = job(() => {
      throw new Error('it broke')
    })
    const report = await root.tick([failing], {}, { openDatabase: watched })
    expect(report).toMatchObject({ claimed: 1, retried: 1, lost: 0 })
    expect(verdicts).toEqual([{ verdict: 'already', status: 'pending' }])
    await expect(root.job(id)).resolves.toMatchObject({
      attempts: 1,
      history: [{ attempt: 1, error: 'it broke' }],
    })
    await expect(counter(root.db, 'jobs_processed_total', 't', 'failed')).resolves.toBe(1)
  })

  it('gets back what a lost answer had leased, by a call that leases nothing new, and runs it', async () => {
    await putMany(5)
    proxy.arm('after', 0, 0)
    const leases: number[] = []
    const watched = () =>
      interfering(throughProxy(), async (call) => {
        const rows = await call()
        const running = await root.db.query("select from tidegate.jobs where status = 'running'")
        leases.push(rows.filter(({ kind }) => kind === 'job').length, running.length)
        return rows
      })
    const report = await root.tick([nothing], {}, { openDatabase: watched, settings: twoByTwo })
    expect(leases.slice(0, 2)).toEqual([2, 2])
    expect(report).toMatchObject({ claimed: 5, completed: 5, stopped: 'empty' })
  })

  it('gives up the right to push that a lost answer had given, until it runs out', async () => {
    proxy.arm('after', 1, 0)
    const pushed: number[] = []
    const push = async (sequence: number) => {
      pushed.push(sequence)
      return null
    }
    await expect(root.tick([nothing], {}, { openDatabase: throughProxy, push })).resolves.toMatchObject({
      stopped: 'empty',
    })
    await root.tick([nothing], {}, { push })
    expect(pushed).toEqual([])
    await moveClock(root.db, settings.pushLeaseMs)
    await root.tick([nothing], {}, { push })
    expect(pushed).toEqual([2])
  })

  it('repeats a settle that lost a deadlock', async () => {
    const ids = (await putMany(2)).sort()
    const other = await begin(root.db)
    // Who has waited for a second looks for a deadlock, and gives way: that is to be the tick.
    await other.sql("set deadlock_timeout = '1h'", [])
    const { promise: locked, resolve: lock } = Promise.withResolvers<void>()
    let ran = 0
    const report = root.tick([
      job(async () => {
        ran += 1
        if (ran === 2) lock(other.sql(LOCK, [ids[1] ?? '']).then(() => undefined))
        await locked
      }),
    ])
    expect(await blocks(root.db, other, report)).toBe(true)
    await other.sql(LOCK, [ids[0] ?? ''])
    await other.end('commit')
    await expect(report).resolves.toMatchObject({ claimed: 2, completed: 2, lost: 0, stopped: 'empty' })
    expect(repeats()).toEqual(['40P01'])
    await expect(completed()).resolves.toBe(2)
  })

  it('repeats a claim and a settle that could not be serialized', async () => {
    await root.put('t')
    // A sequence counts on where a transaction rolls back: the first and the third update fail.
    await refuse(root.db, `nextval('tries') in (1, 3)`, '40001')
    await expect(root.tick([nothing])).resolves.toMatchObject({ claimed: 1, completed: 1, stopped: 'empty' })
    expect(repeats()).toEqual(['40001', '40001'])
    await expect(completed()).resolves.toBe(1)
  })

  it('reconnects when a call does not come back, and goes on settling and leasing', async () => {
    await putMany(2)
    const other = await begin(root.db)
    const locking = job(async (payload, { id }) => {
      if (payload === 0) await other.sql(LOCK, [id])
    })
    const report = root.tick(
      [locking],
      {},
      {
        openDatabase: () => openPg({ url: root.db.url, timeoutMs: 500 }),
        settings: { ...settings, concurrency: 1, batch: 1 },
      },
    )
    // The second is the repetition on a new connection. The first waits on, though nobody waits for it any more.
    expect(await blocks(root.db, other, report, 2)).toBe(true)
    await other.end('commit')
    await expect(report).resolves.toMatchObject({ claimed: 2, completed: 2, lost: 0, stopped: 'empty' })
    await expect(completed()).resolves.toBe(2)
  })

  it('settles without its detail what the database refuses, and its neighbours with theirs (G10)', async () => {
    const ids = [await root.put('t', 'bad'), await root.put('t', 'good'), await root.put('t', 'fails')]
    await refuse(root.db, `new.last_error like '%unspeakable%'`, 'P0001')
    const mixed = job((payload) => {
      if (payload === 'good') return 'its result'
      throw new Error(payload === 'bad' ? 'something unspeakable' : 'an ordinary failure')
    })
    await expect(root.tick([mixed])).resolves.toMatchObject({ completed: 1, retried: 2, stopped: 'empty' })
    await expect(Promise.all(ids.map((id) => root.job(id)))).resolves.toMatchObject([
      { status: 'pending', last_error: 'the database refused the text of this error' },
      { status: 'completed', result: 'its result' },
      { status: 'pending', last_error: 'an ordinary failure' },
    ])
  })

  it('settles the neighbours of what the database refuses altogether, and leaves that to its lease (G10)', async () => {
    const ids = [await root.put('t', 'bad'), await root.put('t', 'good')]
    await refuse(root.db, `new.status <> 'running' and new.payload::text = '"bad"'`, 'P0001')
    await expect(root.tick([nothing])).resolves.toMatchObject({ completed: 1, lost: 1, stopped: 'empty' })
    await expect(Promise.all(ids.map((id) => root.job(id)))).resolves.toMatchObject([
      { status: 'running' },
      { status: 'completed' },
    ])
  })

  describe('for good', () => {
    const windowMs = 2_500
    const short = { settings: { ...settings, reserveMs: 500 } }
    const quick = (run: () => unknown) => job(async () => void (await run()), { timeout: 100 })

    it('because the database is gone, returns before its deadline', async () => {
      const id = await root.put('t')
      const server = openPg({ url: new URL('/postgres', root.db.url).href })
      const shut = async () => {
        await server.sql(`alter database ${root.db.name} allow_connections false`, [])
        await server.sql('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [
          root.db.name,
        ])
      }
      const report = await beforeDeadline(windowMs, root.tick([quick(shut)], { windowMs }, short))
      await server.sql(`alter database ${root.db.name} allow_connections true`, [])
      await server.close()
      expect(report).toMatchObject({ claimed: 1, completed: 0, stopped: 'error' })
      expect(report.error).toMatch(/not currently accepting connections/)
      await expect(root.job(id)).resolves.toMatchObject({ status: 'running', attempts: 1 })
    })

    it('because nothing comes through, returns before its deadline', async () => {
      await root.put('t')
      const ticking = root.tick(
        [quick(() => proxy.partition(60_000))],
        { windowMs },
        { ...short, openDatabase: throughProxy },
      )
      await expect(beforeDeadline(windowMs, ticking)).resolves.toMatchObject({ claimed: 1, stopped: 'error' })
    })

    it('because nothing has come through from the start, returns before its deadline', async () => {
      proxy.partition(60_000)
      const ticking = root.tick([nothing], { windowMs }, { openDatabase: throughProxy })
      await expect(beforeDeadline(windowMs, ticking)).resolves.toMatchObject({ claimed: 0, stopped: 'error' })
    })

    it('when only the goodbye is left, returns all the same', async () => {
      await root.put('t')
      const openDatabase = () =>
        interfering(throughProxy(), async (call, text) => {
          const rows = await call()
          if (text.includes('tidegate.close')) proxy.partition(60_000)
          return rows
        })
      const ticking = root.tick([nothing], {}, { openDatabase })
      await expect(beforeDeadline(20_000, ticking)).resolves.toMatchObject({ completed: 1, stopped: 'empty' })
    })
  })
})

const LOCK = 'select from tidegate.jobs where id = $1 for update'

/** Makes the database refuse the update of a job, with this SQLSTATE. */
async function refuse(db: TestDatabase, condition: string, sqlstate: string): Promise<void> {
  await db.query(`
    create sequence tries;
    create function refuse() returns trigger language plpgsql as $$
    begin
      if ${condition} then
        raise exception 'refused' using errcode = '${sqlstate}';
      end if;
      return new;
    end $$;
    create trigger refuse before update on tidegate.jobs for each row execute function refuse()`)
}

/** Rejects when the deadline comes first, at which a platform kills what still runs. */
async function beforeDeadline(windowMs: number, ticking: Promise<TickReport>): Promise<TickReport> {
  const killed = Promise.withResolvers<never>()
  const timer = setTimeout(() => killed.reject(new Error('killed at the deadline')), windowMs)
  try {
    return await Promise.race([ticking, killed.promise])
  } finally {
    clearTimeout(timer)
  }
}
