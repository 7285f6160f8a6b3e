import { afterEach, beforeEach, describe, expect, it } from 'vitest'

import { createServer } from '../../src/create-server.ts'
import type { AnyJob } from '../../src/registry.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { job, untilAborted } from '../support/tick.ts'

const operator = 'operator-secret-of-tests'

describe('the Node root', () => {
  let db: TestDatabase
  beforeEach(async () => {
    db = await createDatabase()
  })
  afterEach(() => db.close())

  const start = (jobs: readonly AnyJob[], graceMs?: number) =>
    createServer({
      jobs,
      env: {
        DATABASE_URL: db.url,
        TIDEGATE_ENV: 'test',
        OPERATOR_TOKENS: operator,
        LOG_LEVEL: 'silent',
        KICK: 'off',
      },
      port: 0,
      hostname: '127.0.0.1',
      tickEveryMs: 20,
      ...(graceMs !== undefined && { graceMs }),
    })
  const put = async (port: number, key: string) => {
    const response = await fetch(`http://127.0.0.1:${port}/jobs`, {
      method: 'POST',
      headers: { authorization: `Bearer ${operator}`, 'content-type': 'application/json' },
      body: JSON.stringify({ type: 't', payload: {}, idempotency_key: key }),
    })
    return ((await response.json()) as { id: string }).id
  }
  const statuses = async () =>
    (await db.query<{ status: string }>('select status from tidegate.jobs order by id')).map(
      ({ status }) => status,
    )

  it('serves the API and ticks by itself', async () => {
    const server = await start([job(() => 'done')])
    await put(server.port, 'k')
    await expect.poll(statuses, { timeout: 10_000 }).toEqual(['completed'])
    await server.stop()
    await expect(fetch(`http://127.0.0.1:${server.port}/healthz`)).rejects.toThrow(/fetch failed/)
  })

  it('lets a run end by itself when it stops, and claims nothing more', async () => {
    const entered = Promise.withResolvers<void>()
    const leave = Promise.withResolvers<void>()
    const server = await start([
      job(async () => {
        entered.resolve()
        await leave.promise
      }),
    ])
    await put(server.port, 'first')
    await entered.promise
    const stopping = server.stop()
    await db.query("select tidegate.enqueue('t', '{}', 'second')")
    leave.resolve()
    await stopping
    await expect(statuses()).resolves.toEqual(['completed', 'pending'])
  })

  it('aborts and releases what does not end within the grace', async () => {
    const entered = Promise.withResolvers<void>()
    const server = await start(
      [
        job((_payload, { signal }) => {
          entered.resolve()
          return untilAborted(signal, () => {
            throw new Error('aborted')
          })
        }),
      ],
      50,
    )
    await put(server.port, 'k')
    await entered.promise
    await server.stop()
    await expect(db.query('select status, attempts from tidegate.jobs')).resolves.toEqual([
      { status: 'pending', attempts: 0 },
    ])
  })

  it('says in one sentence that its port is taken', async () => {
    const server = await start([])
    await expect(
      createServer({ jobs: [], env: {}, port: server.port, hostname: '127.0.0.1' }),
    ).rejects.toThrow(/EADDRINUSE/)
    await server.stop()
  })
})
