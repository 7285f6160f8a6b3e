import { afterEach, beforeEach, describe, expect, it } from 'vitest'

import { job, never, openRoot, settings, type Root } from '../support/tick.ts'

describe('suspects', () => {
  let root: Root
  beforeEach(async () => {
    root = await openRoot()
  })
  afterEach(() => root.close())

  const suspect = async (type = 't') => {
    const id = await root.put(type, 'suspect')
    await root.db.query('update tidegate.jobs set suspect = true, attempts = 1 where id = $1', [id])
    return id
  }

  it('runs one alone, after everything else is settled', async () => {
    const id = await suspect()
    await Promise.all(Array.from({ length: 15 }, () => root.put('t')))
    const order: unknown[] = []
    const settledBefore: number[] = []
    const report = await root.tick([
      job(async (payload) => {
        order.push(payload)
        if (payload !== 'suspect') return
        const rows = await root.jobs()
        settledBefore.push(rows.filter(({ status }) => status === 'completed').length)
      }),
    ])
    expect(report).toMatchObject({ claimed: 16, completed: 16, stopped: 'empty' })
    expect(order.at(-1)).toBe('suspect')
    expect(settledBefore).toEqual([15])
    await expect(root.job(id)).resolves.toMatchObject({ status: 'completed', suspect: false })
  })

  it('does not run beside a handler that was cancelled and has not returned', async () => {
    const id = await suspect()
    const deaf = await root.put('t', 'deaf')
    await root.put('t', 'other')
    const report = await root.tick([
      job(async (payload) => {
        if (payload === 'other') {
          await root.db.query('update tidegate.jobs set cancel_requested_at = now() where id = $1', [deaf])
        }
        if (payload === 'deaf') await never
      }),
    ])
    expect(report).toMatchObject({ claimed: 2, completed: 1, more: true })
    await expect(root.job(deaf)).resolves.toMatchObject({ status: 'running' })
    await expect(root.job(id)).resolves.toMatchObject({ status: 'pending', suspect: true, attempts: 1 })
  })

  it('waits until a settle that was too large for one call is made whole', async () => {
    const id = await suspect()
    for (let n = 0; n < 3; n += 1) await root.put('t')
    const unsettledBeside: number[] = []
    await root.tick(
      [
        job(async (payload) => {
          if (payload !== 'suspect') return 'x'.repeat(20_000)
          const held = await root.db.query("select from tidegate.jobs where status = 'running'")
          unsettledBeside.push(held.length - 1)
          return 'alone'
        }),
      ],
      {},
      { settings: { ...settings, claimBytes: 45_000 } },
    )
    expect(unsettledBeside).toEqual([0])
    await expect(root.job(id)).resolves.toMatchObject({ status: 'completed' })
  })

  it('is an ordinary job again once it has survived, whatever came of it', async () => {
    const id = await suspect()
    await root.tick([
      job(() => {
        throw new Error('an ordinary failure')
      }),
    ])
    await expect(root.job(id)).resolves.toMatchObject({ status: 'pending', suspect: false, attempts: 2 })
  })

  it('runs several one by one, in at most one round trip each', async () => {
    for (let n = 0; n < 4; n += 1) await suspect()
    let running = 0
    let most = 0
    const report = await root.tick([
      job(async () => {
        running += 1
        most = Math.max(most, running)
        await new Promise((resolve) => setImmediate(resolve))
        running -= 1
      }),
    ])
    expect(report).toMatchObject({ completed: 4, stopped: 'empty' })
    expect(report.roundTrips).toBeLessThanOrEqual(2 + 4)
    expect(most).toBe(1)
  })

  it('gets its turn although the queue never empties', async () => {
    const id = await suspect()
    await Promise.all(Array.from({ length: 40 }, () => root.put('t')))
    let now = 0
    const report = await root.tick(
      [
        job(
          async (payload) => {
            now += 1_000
            if (payload !== 'suspect') await root.put('t')
          },
          { timeout: 2_000 },
        ),
      ],
      { windowMs: 20_000 },
      { clock: () => now, settings: { ...settings, concurrency: 1, batch: 1 } },
    )
    expect(report).toMatchObject({ stopped: 'deadline', more: true })
    expect(report.completed).toBeGreaterThan(10)
    await expect(root.job(id)).resolves.toMatchObject({ status: 'completed' })
  })

  it('goes first when its timeout takes more than half of the window', async () => {
    await suspect('long')
    await root.put('t')
    const order: string[] = []
    const noting = (type: string, timeout: number) => job(() => void order.push(type), { type, timeout })
    await root.tick([noting('long', 15_000), noting('t', 1_000)], { windowMs: 20_000 })
    expect(order).toEqual(['long', 't'])
  })

  it('gets its turn although the queue never empties of long jobs', async () => {
    await suspect('t')
    for (let n = 0; n < 5; n += 1) await root.put('long')
    let now = 0
    const taking = (type: string, ms: number, timeout: number) =>
      job(() => void (now += ms), { type, timeout })
    const jobs = [taking('long', 16_000, 17_000), taking('t', 1_000, 4_000)]
    const one = { clock: () => now, settings: { ...settings, concurrency: 1, batch: 1 } }
    await expect(root.tick(jobs, { windowMs: 20_000 }, one)).resolves.toMatchObject({
      completed: 2,
      more: true,
    })
    const [row] = await root.db.query("select status from tidegate.jobs where type = 't'")
    expect(row).toEqual({ status: 'completed' })
  })

  it('leaves half of the window to ordinary jobs, however many there are', async () => {
    for (let n = 0; n < 10; n += 1) await suspect()
    let now = 0
    const report = await root.tick(
      [job(() => void (now += 3_000), { timeout: 3_500 })],
      { windowMs: 20_000 },
      { clock: () => now, settings: { ...settings, concurrency: 1, batch: 1 } },
    )
    expect(report).toMatchObject({ completed: 4, stopped: 'deadline', more: true })
  })
})
