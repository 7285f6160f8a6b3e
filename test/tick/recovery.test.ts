import { afterEach, beforeEach, describe, expect, it } from 'vitest'

import { DatabaseError } from '../../src/db/errors.ts'
import { openPg } from '../../src/db/pg.ts'
import { requeue } from '../../src/store/operate.ts'
import { counter, step } from '../support/store.ts'
import { interfering, job, openRoot, type Root } from '../support/tick.ts'

/** Leases that one call reports; the next one settles them. */
const PER_CALL = 500

describe('recovery of expired leases (G7)', () => {
  let root: Root
  beforeEach(async () => {
    root = await openRoot()
    const { sql, close } = openPg({ url: root.db.url })
    await step(sql)
    await close()
  })
  afterEach(() => root.close())

  /** Jobs that some tick has leased, until so many seconds from now. */
  const leased = (count: number, seconds: number, fields: { type?: string; maxAttempts?: number } = {}) =>
    root.db.query<{ id: string }>(
      `insert into tidegate.jobs
         (type, payload, idempotency_key, max_attempts, status, attempts, lease_token, lease_until,
          started_at, available_at, created_at, updated_at)
       select $3, '{}', 'lease-' || gen_random_uuid(), $4, 'running', 1, gen_random_uuid(),
         now() + $2 * interval '1 second' + n * interval '1 microsecond', now(), now(), now(), now()
       from generate_series(1, $1::integer) as n
       returning id`,
      [count, seconds, fields.type ?? 't', fields.maxAttempts ?? 5],
    )
  const statuses = async () => {
    const rows = await root.db.query<{ status: string; n: number }>(
      'select status, count(*)::integer as n from tidegate.jobs group by status',
    )
    return Object.fromEntries(rows.map(({ status, n }) => [status, n]))
  }
  const live = () =>
    root.db.query("select j::text as row from tidegate.jobs as j where status = 'running' order by id")

  it('one tick recovers 5,000 among live ones in ⌈5000/500⌉ + 2 calls, and needs no handler (trap 5)', async () => {
    await leased(5_000, -60, { type: 'nobody' })
    await leased(200, 600)
    const before = await root.db.query(
      'select j::text as row from tidegate.jobs as j where lease_until > now() order by id',
    )
    const report = await root.tick([])
    expect(report).toMatchObject({ claimed: 0, reaped: 5_000, stopped: 'empty' })
    expect(report.roundTrips).toBeLessThanOrEqual(5_000 / PER_CALL + 2)
    await expect(statuses()).resolves.toEqual({ pending: 5_000, running: 200 })
    await expect(live()).resolves.toEqual(before)
    await expect(counter(root.db, 'jobs_reaped_total', 'nobody')).resolves.toBe(5_000)
  })

  it('overlapping ticks recover each lease once', async () => {
    await leased(2_000, -60)
    const reports = await Promise.all(Array.from({ length: 4 }, () => root.tick([job(() => undefined)])))
    expect(reports.reduce((sum, { reaped }) => sum + reaped, 0)).toBe(2_000)
    await expect(statuses()).resolves.toEqual({ pending: 2_000 })
    await expect(counter(root.db, 'jobs_reaped_total')).resolves.toBe(2_000)
    await expect(counter(root.db, 'jobs_lease_lost_total', '')).resolves.toBe(0)
  })

  it('one row that somebody holds keeps back neither the other leases nor what is due (trap 4)', async () => {
    const [held] = await leased(10, -60)
    const due = await root.put('t')
    const holder = await root.db.connect()
    await holder.query('begin')
    await holder.query('select from tidegate.jobs where id = $1 for update', [held?.id])
    const report = await root.tick([job(() => undefined)])
    expect(report).toMatchObject({ completed: 1, reaped: 9, stopped: 'empty' })
    await expect(root.job(due)).resolves.toMatchObject({ status: 'completed' })
    await holder.query('rollback')
    await expect(root.tick([job(() => undefined)])).resolves.toMatchObject({ reaped: 1 })
  })

  it('one row that cannot be recovered keeps back neither the other leases nor what is due (trap 4)', async () => {
    const [broken] = await leased(10, -60)
    await root.put('t')
    await root.db.query(
      "alter table tidegate.jobs add check (status = 'running' or id <> '" + broken?.id + "') not valid",
    )
    await expect(root.tick([job(() => undefined)])).resolves.toMatchObject({
      completed: 1,
      reaped: 9,
      stopped: 'empty',
    })
    await expect(root.job(broken?.id ?? '')).resolves.toMatchObject({ status: 'running' })
  })

  it('a crash on the last attempt ends dead, with an error that says so (trap 12)', async () => {
    const [last] = await leased(1, -60, { maxAttempts: 1 })
    const [other] = await leased(1, -60)
    await expect(root.tick([])).resolves.toMatchObject({ reaped: 2, dead: 1 })
    await expect(root.job(last?.id ?? '')).resolves.toMatchObject({
      status: 'dead',
      attempts: 1,
      last_error: expect.stringMatching(/^the lease ended before the run was settled/) as string,
      history: [{ attempt: 1, outcome: 'crashed', code: 'crashed' }],
    })
    await expect(root.job(other?.id ?? '')).resolves.toMatchObject({ status: 'pending', suspect: true })
    await expect(counter(root.db, 'jobs_died_total')).resolves.toBe(1)
  })

  it('a job that is requeued after its last crash is no suspect any more', async () => {
    const [row] = await leased(1, -60, { maxAttempts: 1 })
    const id = row?.id ?? ''
    await root.tick([])
    const { sql, close } = openPg({ url: root.db.url })
    await expect(requeue(sql, id, 'ann')).resolves.toMatchObject({ outcome: 'ok', job: { suspect: false } })
    await close()
    await expect(root.tick([job(() => undefined)])).resolves.toMatchObject({ completed: 1 })
    await expect(root.job(id)).resolves.toMatchObject({ status: 'completed', attempts: 1 })
  })

  it('a tick that dies during a recovery has changed nothing, and the next one does it', async () => {
    await leased(3, -60)
    let calls = 0
    const dying = () =>
      interfering(openPg({ url: root.db.url }), (call) => {
        calls += 1
        if (calls === 1) return call()
        return Promise.reject(new DatabaseError('the tick has died', { kind: 'definite' }))
      })
    const report = await root.tick([], {}, { openDatabase: dying })
    expect(report).toMatchObject({ reaped: 0, stopped: 'error' })
    await expect(statuses()).resolves.toEqual({ running: 3 })
    await expect(root.tick([])).resolves.toMatchObject({ reaped: 3 })
  })
})
