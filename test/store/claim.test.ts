import { afterEach, beforeEach, describe, expect, it } from 'vitest'

import { claim, claimOf, drivers, openStore, put, retry, settle, step, type Store } from '../support/store.ts'

describe.each(drivers)('claim over $name', (driver) => {
  let store: Store
  beforeEach(async () => {
    store = await openStore(driver)
    await step(store.sql)
  })
  afterEach(() => store.close())

  const keys = (jobs: readonly { readonly payload: string }[]) => jobs.map(({ payload }) => payload)

  it('counts the attempt, takes the token and ends the lease when it was told', async () => {
    const job = await put(store.sql, { payload: '{"x": 1}', traceparent: '00-a-b-01' })
    const request = claimOf({ leaseMs: 45_000 })
    const { jobs } = await step(store.sql, { claim: request })
    expect(jobs).toEqual([
      {
        id: job.id,
        type: 't',
        token: request.token,
        attempt: 1,
        maxAttempts: 5,
        suspect: false,
        payload: '{"x": 1}',
        traceparent: '00-a-b-01',
        waitedMs: expect.any(Number) as number,
      },
    ])
    const [row] = await store.db.query(
      'select status, attempts, extract(epoch from lease_until - started_at)::integer as lease from tidegate.jobs',
    )
    expect(row).toEqual({ status: 'running', attempts: 1, lease: 45 })
  })

  it('takes by priority, then due time, then id', async () => {
    await put(store.sql, { payload: '"late"', availableAt: '2020-01-02T00:00:00Z' })
    await put(store.sql, { payload: '"early"', availableAt: '2020-01-01T00:00:00Z' })
    await put(store.sql, { payload: '"high"', priority: 5 })
    await put(store.sql, { payload: '"low"', priority: -5 })
    await put(store.sql, { payload: '"other"', type: 'u', availableAt: '2020-01-01T12:00:00Z' })
    const jobs = await claim(store.sql)
    expect(keys(jobs)).toEqual(['"high"', '"early"', '"other"', '"late"', '"low"'])
  })

  it('leaves delayed jobs alone until the database clock says so', async () => {
    await put(store.sql, { delayMs: 600_000 })
    await store.moveClock(300_000)
    await expect(claim(store.sql)).resolves.toEqual([])
    await store.moveClock(600_000)
    await expect(claim(store.sql)).resolves.toHaveLength(1)
  })

  it('leaves types alone that were not asked for', async () => {
    await put(store.sql, { type: 'u' })
    await expect(claim(store.sql, { types: ['t'] })).resolves.toEqual([])
    await expect(claim(store.sql, { types: ['u'] })).resolves.toHaveLength(1)
  })

  it('leaves a paused type alone, and everything while all is paused', async () => {
    await put(store.sql)
    await put(store.sql, { type: 'u' })
    await store.db.query("update tidegate.types set paused_at = now() where type = 't'")
    const jobs = await claim(store.sql)
    expect(jobs.map(({ type }) => type)).toEqual(['u'])
    await store.db.query('update tidegate.types set paused_at = null')
    await store.db.query('update tidegate.meta set paused_at = now()')
    await expect(claim(store.sql)).resolves.toEqual([])
  })

  it('stops at its bytes, but always takes one row', async () => {
    const payload = JSON.stringify('x'.repeat(998))
    for (let n = 0; n < 5; n += 1) await put(store.sql, { payload })
    await expect(claim(store.sql, { bytes: 1 })).resolves.toHaveLength(1)
    await expect(claim(store.sql, { bytes: 2_001 })).resolves.toHaveLength(3)
    await expect(claim(store.sql, { bytes: 2_001 })).resolves.toHaveLength(1)
  })

  it.each([
    'enable_nestloop',
    'enable_hashjoin',
    'enable_mergejoin',
    'enable_indexscan',
    'enable_material',
    'enable_sort',
  ])('never exceeds its limit with %s off (trap 9)', async (setting) => {
    await store.close()
    store = await openStore(driver)
    // Before the first statement: a pooler gives sessions to others that began without it.
    await store.db.query(`alter database ${store.db.name} set ${setting} = off`)
    await expect(
      store.sql('select current_setting($1::text) as value where clock_timestamp() is not null', [setting]),
    ).resolves.toEqual([{ value: 'off' }])
    await step(store.sql)
    for (let n = 0; n < 30; n += 1) await put(store.sql, { type: n % 2 === 0 ? 't' : 'u', priority: n % 3 })
    await expect(claim(store.sql, { limit: 3 })).resolves.toHaveLength(3)
    await expect(claim(store.sql, { limit: 7 })).resolves.toHaveLength(7)
    const running = await store.db.query("select from tidegate.jobs where status = 'running'")
    expect(running).toHaveLength(10)
  })

  it('shares the queue among ten at once without giving a job to two', async () => {
    for (let n = 0; n < 50; n += 1) await put(store.sql, { priority: n % 4 })
    const sessions = Array.from({ length: 10 }, () => store.another())
    const claims = await Promise.all(sessions.map(({ sql }) => claim(sql, { limit: 5 })))
    const ids = claims.flat().map(({ id }) => id)
    expect(new Set(ids).size).toBe(ids.length)
    const rest = await claim(store.sql, { limit: 50 })
    expect(ids.length + rest.length).toBe(50)
  })

  it('claims suspects only when it is asked to, oldest first', async () => {
    const [first, second] = [await put(store.sql), await put(store.sql)]
    await store.db.query('update tidegate.jobs set suspect = true where id = $1', [first.id])
    expect((await claim(store.sql)).map(({ id }) => id)).toEqual([second.id])
    const answer = await step(store.sql)
    expect(answer.dueSuspectType).toBe('t')
    const jobs = await claim(store.sql, { suspects: true, limit: 1 })
    expect(jobs).toMatchObject([{ id: first.id, suspect: true }])
  })

  it('gives the rows of a lost answer back to whoever names their token, and leases nothing new', async () => {
    await put(store.sql)
    const request = claimOf({ limit: 1 })
    await step(store.sql, { claim: request })
    await put(store.sql)
    const { jobs } = await step(store.sql, { recover: request.token })
    expect(jobs).toMatchObject([{ token: request.token, attempt: 1 }])
    await expect(claim(store.sql)).resolves.toHaveLength(1)
  })

  it('reports expired leases with their tokens, oldest first, and never live ones', async () => {
    const request = claimOf({ limit: 1, leaseMs: 1_000 })
    await put(store.sql)
    await step(store.sql, { claim: request })
    await put(store.sql)
    await claim(store.sql, { leaseMs: 60_000 })
    await expect(step(store.sql, { expired: 10 })).resolves.toMatchObject({ expired: [] })
    await store.moveClock(2_000)
    const { expired } = await step(store.sql, { expired: 10 })
    expect(expired).toMatchObject([{ token: request.token, attempt: 1, maxAttempts: 5, type: 't' }])
  })

  it('tells which held jobs must stop: asked to cancel, or no longer leased by this token', async () => {
    await put(store.sql)
    await put(store.sql)
    await put(store.sql)
    const held = await claim(store.sql)
    const [cancelled, lost] = held
    await store.db.query('update tidegate.jobs set cancel_requested_at = now() where id = $1', [
      cancelled?.id,
    ])
    await settle(store.sql, [lost ?? { id: '', token: '' }], retry())
    const { aborts } = await step(store.sql, { held })
    expect(aborts).toHaveLength(2)
    expect(aborts).toContainEqual({ id: cancelled?.id, reason: 'cancelled' })
    expect(aborts).toContainEqual({ id: lost?.id, reason: 'lost' })
  })

  it('runs nothing and changes nothing in a database of another environment', async () => {
    await put(store.sql)
    const before = await store.db.query('select * from tidegate.jobs, tidegate.types')
    const answer = await step(store.sql, {
      environment: 'preview',
      claim: claimOf(),
      register: [{ type: 'new', timeoutMs: 1, maxAttempts: 1 }],
      expired: 10,
    })
    expect(answer).toMatchObject({
      ownership: { matches: false, recordedEnvironment: 'test' },
      jobs: [],
      expired: [],
    })
    await expect(store.db.query('select * from tidegate.jobs, tidegate.types')).resolves.toEqual(before)
  })

  it('registers types once and writes only what has changed', async () => {
    const registered = () =>
      store.db.query('select type, timeout_ms, xmin::text from tidegate.types order by type')
    const before = await registered()
    await step(store.sql)
    await expect(registered()).resolves.toEqual(before)
    await step(store.sql, { register: [{ type: 't', timeoutMs: 2_000, maxAttempts: 5 }] })
    await expect(registered()).resolves.toMatchObject([{ type: 't', timeout_ms: 2_000 }, before[1] ?? {}])
  })
})
