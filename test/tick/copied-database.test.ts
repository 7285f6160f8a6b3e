import { execFile } from 'node:child_process'
import { access, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest'

import { openPg } from '../../src/db/pg.ts'
import type { Sql } from '../../src/db/sql.ts'
import type { TickReport } from '../../src/report.ts'
import { adopt } from '../../src/store/adopt.ts'
import { cloneDatabase, dump, restoreTables } from '../support/copies.ts'
import { createDatabase, createEmptyDatabase, type TestDatabase } from '../support/database.ts'
import { claim, counter, dead, moveClock, put, settle, step } from '../support/store.ts'
import { startTestServer } from '../support/test-server.ts'
import { job, openRoot, type Root } from '../support/tick.ts'

const run = promisify(execFile)

/** The programs of Debian's PostgreSQL 15: what npm installs has no pg_dump, and an older one refuses a newer server. */
const programs = '/usr/lib/postgresql/15/bin'
const hasPrograms = await Promise.all(
  ['postgres', 'pg_dump', 'psql'].map((program) => access(join(programs, program))),
).then(
  () => true,
  () => false,
)

describe('a copied database (G11, trap 23)', () => {
  let root: Root
  let origin: TestDatabase
  let ran: unknown[]
  let kept: TestDatabase[]
  beforeEach(async () => {
    ran = []
    kept = []
    root = await openRoot()
    origin = keep(await createDatabase())
  })
  afterEach(async () => {
    await Promise.all(kept.map((database) => database.close()))
    await root.close()
  })

  const keep = (database: TestDatabase) => {
    kept.push(database)
    return database
  }
  const tick = (database: TestDatabase, environment: string): Promise<TickReport> =>
    root.tick(
      [job((payload) => void ran.push(payload))],
      {},
      { environment, openDatabase: () => openPg({ url: database.url }) },
    )
  const adopting = async (database: TestDatabase, options: Partial<Parameters<typeof adopt>[1]>) =>
    withSql(database, (sql) => adopt(sql, { environment: 'preview', cancelPending: false, ...options }))
  const clone = () => cloneDatabase(origin).then(keep)
  const restore = () => restoreTables(origin).then(keep)
  const onBranch = (database: TestDatabase, branch: string) =>
    database.query(`alter database ${database.name} set neon.branch_id = '${branch}'`)

  it.each([
    {
      what: 'cloned, for another environment',
      copy: clone,
      environment: 'preview',
      error: 'belongs to environment "test", this root to environment "preview"',
    },
    {
      what: 'restored from its tables, for another environment',
      copy: restore,
      environment: 'preview',
      error: 'belongs to environment "test", this root to environment "preview"',
    },
    {
      what: 'on another branch of Neon, for the same environment',
      copy: async () => {
        await onBranch(origin, 'br-main')
        await adopting(origin, { environment: 'test' })
        const copy = await clone()
        await onBranch(copy, 'br-copy')
        return copy
      },
      environment: 'test',
      error: 'environment "test" on branch br-main, this root to environment "test" on branch br-copy',
    },
    {
      what: 'taken out of Neon, for the same environment',
      copy: async () => {
        await onBranch(origin, 'br-main')
        await adopting(origin, { environment: 'test' })
        return restore()
      },
      environment: 'test',
      error: 'environment "test" on branch br-main, this root to environment "test";',
    },
  ])('$what, runs nothing and stays as it is', async ({ copy, environment, error }) => {
    await fill(origin)
    const database = await copy()
    // The leases of its origin have ended.
    await moveClock(database, 3_600_000)
    const before = await dump(database)
    const report = await tick(database, environment)
    expect(report).toMatchObject({ claimed: 0, reaped: 0, pruned: 0, stopped: 'wrong_database' })
    expect(report.error).toContain(error)
    expect(ran).toEqual([])
    await expect(dump(database)).resolves.toBe(before)
  })

  it.skipIf(!hasPrograms)('restored by pg_dump and psql, runs nothing and stays as it is', async () => {
    const server = await startTestServer(programs)
    const folder = await mkdtemp(join(tmpdir(), 'tidegate-dump-'))
    try {
      const [source, target] = await Promise.all([createDatabase(server), createEmptyDatabase(server)])
      const file = join(folder, 'dump.sql')
      await fill(source)
      await run(join(programs, 'pg_dump'), ['--file', file, source.url])
      await run(join(programs, 'psql'), ['--set', 'ON_ERROR_STOP=1', '--file', file, target.url])
      const before = await dump(target)
      expect(before).toBe(await dump(source))
      await moveClock(target, 3_600_000)
      await expect(tick(target, 'preview')).resolves.toMatchObject({ claimed: 0, stopped: 'wrong_database' })
      await expect(dump(target)).resolves.toBe(before)
      await adopting(target, {})
      await expect(tick(target, 'preview')).resolves.toMatchObject({ completed: 3, reaped: 2 })
      await Promise.all([source.close(), target.close()])
    } finally {
      await server.stop()
      await rm(folder, { recursive: true })
    }
  })

  it('adopted, runs what waited, and what ran once its leases have ended', async () => {
    await fill(origin)
    const copy = await clone()
    await expect(adopting(copy, {})).resolves.toEqual({
      outcome: 'adopted',
      from: { environment: 'test', branchId: null },
      to: { environment: 'preview', branchId: null },
      cancelled: 0,
      marked: 0,
    })
    await expect(tick(copy, 'preview')).resolves.toMatchObject({ completed: 3, reaped: 0, stopped: 'empty' })
    expect(ran).toEqual(['pending', 'pending', 'pending'])
    await moveClock(copy, 3_600_000)
    await expect(tick(copy, 'preview')).resolves.toMatchObject({ claimed: 0, reaped: 2 })
    await moveClock(copy, 7_200_000)
    await expect(tick(copy, 'preview')).resolves.toMatchObject({ completed: 2 })
    await expect(statuses(copy)).resolves.toEqual({ completed: 5, dead: 1 })
    await expect(tick(copy, 'test')).resolves.toMatchObject({ stopped: 'wrong_database' })
  })

  it('adopted with its jobs cancelled, runs none of them, ever, and counts each once (G8)', async () => {
    await fill(origin)
    const copy = await clone()
    await expect(adopting(copy, { cancelPending: true, batch: 2 })).resolves.toMatchObject({
      outcome: 'adopted',
      cancelled: 3,
      marked: 2,
    })
    await expect(statuses(copy)).resolves.toEqual({ cancelled: 3, dead: 1, running: 2 })
    await moveClock(copy, 3_600_000)
    await expect(tick(copy, 'preview')).resolves.toMatchObject({ claimed: 0, reaped: 2, cancelled: 2 })
    await moveClock(copy, 7_200_000)
    await expect(tick(copy, 'preview')).resolves.toMatchObject({ claimed: 0, more: false, nextDueAt: null })
    expect(ran).toEqual([])
    await expect(statuses(copy)).resolves.toEqual({ cancelled: 5, dead: 1 })
    await expect(counter(copy, 'jobs_cancelled_total')).resolves.toBe(5)
  })

  it('runs nothing while it is being adopted; an adoption that was cut short is finished by a repetition', async () => {
    await fill(origin)
    const copy = await clone()
    const cutShort = withSql(copy, (sql) => {
      let calls = 0
      const twice: Sql = (text, params) => {
        calls += 1
        return calls > 2 ? Promise.reject(new Error('cut off')) : sql(text, params)
      }
      return adopt(twice, { environment: 'preview', cancelPending: true, batch: 1 })
    })
    await expect(cutShort).rejects.toThrow('cut off')
    await expect(tick(copy, 'preview')).resolves.toMatchObject({ claimed: 0, stopped: 'wrong_database' })
    await expect(adopting(copy, { cancelPending: true })).resolves.toMatchObject({ outcome: 'adopted' })
    await expect(tick(copy, 'preview')).resolves.toMatchObject({ claimed: 0, stopped: 'empty' })
    await expect(statuses(copy)).resolves.toEqual({ cancelled: 3, dead: 1, running: 2 })
    await expect(counter(copy, 'jobs_cancelled_total')).resolves.toBe(3)
  })

  it('a database that is ours already stays as it is, though its jobs were to be cancelled', async () => {
    await fill(origin)
    const before = await dump(origin)
    const adopted = await adopting(origin, { environment: 'test', cancelPending: true })
    expect(adopted).toMatchObject({ outcome: 'ours', cancelled: 0, marked: 0 })
    await expect(dump(origin)).resolves.toBe(before)
  })

  it('records the branch of Neon that it is adopted on', async () => {
    await onBranch(origin, 'br-copy')
    await expect(adopting(origin, { environment: 'test' })).resolves.toMatchObject({
      outcome: 'adopted',
      from: { environment: 'test', branchId: null },
      to: { environment: 'test', branchId: 'br-copy' },
    })
    await expect(tick(origin, 'test')).resolves.toMatchObject({ stopped: 'empty' })
  })

  describe('the script', () => {
    const script = (args: readonly string[], env: NodeJS.ProcessEnv = { DATABASE_URL: origin.url }) =>
      run(process.execPath, ['scripts/adopt.ts', ...args], { env })

    it('prints what it did, and the second time that there is nothing to do', async () => {
      await fill(origin)
      await expect(script(['--env', 'preview', '--cancel-pending'])).resolves.toMatchObject({
        stdout:
          'cancelled 3 pending jobs, marked 2 running ones: they are cancelled when their leases end\n' +
          'adopted: the database belonged to environment "test", and now to environment "preview"\n',
      })
      await expect(script(['--env=preview'])).resolves.toMatchObject({
        stdout: 'nothing to do: the database belongs to environment "preview" already; no job was touched\n',
      })
    })

    it.each([
      ['no environment', [], /^adopt: expected --env .* got null; usage: /],
      ['an empty environment', ['--env', ''], /^adopt: expected --env .* got ""/],
      [
        'an option that it does not know',
        ['--env', 'preview', '--force'],
        /^adopt: Unknown option '--force'/,
      ],
    ])('refuses %s in one line', async (_what, args, stderr) => {
      const failure: unknown = await script(args).catch((error: unknown) => error)
      expect(failure).toMatchObject({ code: 1, stdout: '', stderr: expect.stringMatching(stderr) as string })
    })

    it.each([
      [
        'no database',
        () => ({}),
        'expected MIGRATE_DATABASE_URL, DATABASE_URL_UNPOOLED or DATABASE_URL, found none',
      ],
      [
        'what is no database URL',
        () => ({ DATABASE_URL: 'secret' }),
        'expected DATABASE_URL like postgres://user:password@host/database, got something else',
      ],
      [
        'a database without our schema',
        () => ({ DATABASE_URL: inject('postgres').url }),
        'the database has no schema tidegate: is it the right one?',
      ],
    ])('says so when it is given %s', async (_what, env, message) => {
      const failure: unknown = await script(['--env', 'preview'], env()).catch((error: unknown) => error)
      expect(failure).toMatchObject({ code: 1, stdout: '', stderr: `adopt: ${message}\n` })
    })
  })
})

/** Three jobs wait, two run, one is dead. */
async function fill(database: TestDatabase): Promise<void> {
  await withSql(database, async (sql) => {
    await step(sql)
    for (const payload of ['"dead"', '"running"', '"running"']) await put(sql, { payload, priority: 1 })
    const [first] = await claim(sql, { limit: 3, leaseMs: 60_000 })
    await settle(sql, first === undefined ? [] : [first], dead())
    for (let n = 0; n < 3; n += 1) await put(sql, { payload: '"pending"' })
  })
}

async function withSql<Answer>(database: TestDatabase, use: (sql: Sql) => Promise<Answer>): Promise<Answer> {
  const opened = openPg({ url: database.url })
  try {
    return await use(opened.sql)
  } finally {
    await opened.close()
  }
}

async function statuses(database: TestDatabase): Promise<object> {
  const rows = await database.query<{ status: string; n: number }>(
    'select status, count(*)::integer as n from tidegate.jobs group by status order by status',
  )
  return Object.fromEntries(rows.map(({ status, n }) => [status, n]))
}
