import { afterEach, beforeEach, describe, expect, it } from 'vitest'

import { job, openRoot, untilAborted, type Root } from '../support/tick.ts'

describe('an interruption is not a failure (G3)', () => {
  let root: Root
  beforeEach(async () => {
    root = await openRoot()
  })
  afterEach(() => root.close())

  it('on its signal claims nothing more and releases what returns; that burns no attempt (trap 1)', async () => {
    await Promise.all(Array.from({ length: 12 }, () => root.put('t')))
    const stop = new AbortController()
    let entered = 0
    const report = await root.tick(
      [
        job((_payload, { signal }) => {
          entered += 1
          if (entered === 10) stop.abort()
          return untilAborted(signal, () => {
            throw new Error('aborted')
          })
        }),
      ],
      { signal: stop.signal },
    )
    expect(report).toMatchObject({ claimed: 10, released: 10, stopped: 'shutdown', more: true })
    for (const row of await root.jobs()) expect(row).toMatchObject({ status: 'pending', attempts: 0 })
  })

  it('leaves the lease to a handler that has not returned after an interruption', async () => {
    const id = await root.put('t')
    const stop = new AbortController()
    const deaf = job(() => {
      stop.abort()
      return new Promise<never>(() => undefined)
    })
    await expect(root.tick([deaf], { signal: stop.signal })).resolves.toMatchObject({
      claimed: 1,
      released: 0,
      stopped: 'shutdown',
    })
    await expect(root.job(id)).resolves.toMatchObject({ status: 'running', attempts: 1 })
  })

  it('keeps a success that came after the interruption', async () => {
    const id = await root.put('t')
    const stop = new AbortController()
    const stubborn = job((_payload, { signal }) => {
      stop.abort()
      return untilAborted(signal, () => 'done')
    })
    await expect(root.tick([stubborn], { signal: stop.signal })).resolves.toMatchObject({ completed: 1 })
    await expect(root.job(id)).resolves.toMatchObject({ status: 'completed', result: 'done' })
  })

  it('aborts the signal of a running job that is cancelled, and ends it cancelled', async () => {
    const id = await root.put('t')
    const other = await root.put('t')
    const report = await root.tick([
      job(async (_payload, context) => {
        if (context.id === other) return
        await root.db.query('update tidegate.jobs set cancel_requested_at = now() where id = $1', [id])
        await untilAborted(context.signal, () => {
          throw new Error('stopped')
        })
      }),
    ])
    expect(report).toMatchObject({ completed: 1, cancelled: 1 })
    await expect(root.job(id)).resolves.toMatchObject({ status: 'cancelled' })
  })

  it('returns at once when it is told to stop before it begins', async () => {
    await root.put('t')
    const report = await root.tick([job(() => undefined)], { signal: AbortSignal.abort() })
    expect(report).toMatchObject({ claimed: 0, stopped: 'shutdown', more: true })
  })
})

describe('a tick that lingers', () => {
  let root: Root
  beforeEach(async () => {
    root = await openRoot()
  })
  afterEach(() => root.close())

  it('runs what falls due while it waits, and ends when nothing fits any more', async () => {
    const ids: string[] = []
    const chained = job(
      async () => {
        if (ids.length < 3) ids.push(await root.put('t', {}, { delayMs: 150 }))
      },
      { timeout: 300 },
    )
    ids.push(await root.put('t'))
    const report = await root.tick([chained], { windowMs: 3_000, lingerMs: 100 })
    expect(report.completed).toBe(3)
    expect(report.roundTrips).toBeGreaterThan(10)
    // Whether its last look came just before or just after nothing fitted any more.
    expect(['empty', 'deadline']).toContain(report.stopped)
  })

  it('ends at once when it is told to stop', async () => {
    const stop = new AbortController()
    const ticking = root.tick([job(() => undefined)], {
      windowMs: 20_000,
      lingerMs: 5_000,
      signal: stop.signal,
    })
    for (;;) {
      const rows = await root.db.query('select from tidegate.types')
      if (rows.length > 0) break
    }
    stop.abort()
    await expect(ticking).resolves.toMatchObject({ stopped: 'shutdown' })
  })
})
