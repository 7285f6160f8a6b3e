import { afterEach, beforeEach, describe, expect, it } from 'vitest'

import { startReceiver, type Receiver } from '../support/webhook-receiver.ts'
import { job, openRoot, settings, type Root } from '../support/tick.ts'

describe('the budget of a tick', () => {
  let root: Root
  let outside: Receiver
  beforeEach(async () => {
    root = await openRoot()
    outside = await startReceiver((response) => response.end('ok'))
  })
  afterEach(async () => {
    await outside[Symbol.asyncDispose]()
    await root.close()
  })

  const calling = (times: number) =>
    job(async (_payload, { fetch }) => {
      for (let n = 0; n < times; n += 1) await (await fetch(outside.origin)).text()
    })
  const limited = (maxSubrequests: number) => ({
    settings: { ...settings, concurrency: 2, batch: 2, maxSubrequests },
  })
  const put = async (count: number) => {
    for (let n = 0; n < count; n += 1) await root.put('t')
  }

  it('counts what handlers fetch and what the tick itself needs', async () => {
    await put(3)
    const report = await root.tick([calling(2)])
    expect(report).toMatchObject({ completed: 3, subrequests: 3 * 2 + 1, stopped: 'empty' })
  })

  it('stops claims when it is used up, and says so', async () => {
    await put(10)
    const report = await root.tick([calling(1)], {}, limited(10))
    expect(report).toMatchObject({ completed: 6, stopped: 'budget', more: true, released: 0 })
    expect(report.subrequests).toBeLessThanOrEqual(10)
    expect(outside.received).toHaveLength(6)
  })

  it('releases with its attempt what ran out because of others', async () => {
    await put(4)
    const report = await root.tick([calling(3)], {}, limited(12))
    expect(report).toMatchObject({ completed: 2, stopped: 'budget', more: true })
    expect(report.released).toBeGreaterThanOrEqual(1)
    for (const row of await root.jobs()) {
      expect(row.attempts).toBe(row.status === 'completed' ? 1 : 0)
    }
  })

  it('fails a job that needs more than there is, for it would in every tick', async () => {
    await put(1)
    await expect(root.tick([calling(50)], {}, limited(12))).resolves.toMatchObject({
      retried: 1,
      released: 0,
    })
    const [row] = await root.jobs()
    expect(row).toMatchObject({
      attempts: 1,
      last_error: 'BudgetError: the requests that this tick may make are used up',
    })
  })

  it("takes the platform's own refusal for an interruption, and claims nothing more", async () => {
    await put(6)
    let sent = 0
    const platform: typeof fetch = async (...request) => {
      sent += 1
      if (sent > 4) throw new Error('Too many subrequests by single Worker invocation.')
      return fetch(...request)
    }
    const report = await root.tick(
      [calling(2)],
      {},
      { fetch: platform, settings: { ...settings, concurrency: 2, batch: 2 } },
    )
    expect(report).toMatchObject({ completed: 2, released: 2, retried: 0, stopped: 'budget', more: true })
  })
})
