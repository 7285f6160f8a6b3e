import { join } from 'node:path'

import { afterEach, beforeEach, describe, expect, it } from 'vitest'

import { expectReady } from '../../scripts/start/readiness.ts'
import { superviseWorkerd, type Supervisor } from '../../scripts/start/supervisor.ts'
import { bundleWorker } from '../../scripts/workerd/bundle.ts'
import { startWorkerd } from '../../scripts/workerd.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'

describe('a handler that takes its whole process along, under the supervisor of npm start', () => {
  let db: TestDatabase
  let supervisor: Supervisor
  let port = 0
  const printed: string[] = []

  beforeEach(async () => {
    db = await createDatabase()
    const bundle = await bundleWorker({
      main: join(import.meta.dirname, '..', 'fixtures', 'poison-worker.ts'),
    })
    const vars = {
      DATABASE_URL: db.url,
      TIDEGATE_ENV: 'test',
      OPERATOR_TOKENS: 'operator-secret-of-tests',
      TICK_WINDOW_MS: '3000',
      TICK_HTTP_WINDOW_MS: '3000',
      SETTLE_RESERVE_MS: '500',
      LEASE_MARGIN_MS: '1000',
      BASE_BACKOFF_MS: '1',
      DEFAULT_TIMEOUT_MS: '1000',
      LOG_LEVEL: 'warn',
    }
    supervisor = await superviseWorkerd({
      launch: async () => {
        const workerd = await startWorkerd({ bundle, port, vars })
        port = Number(new URL(workerd.url).port)
        return workerd
      },
      expectReady,
      tickEveryMs: 100,
      print: (line) => printed.push(line),
    })
  })
  afterEach(async () => {
    await supervisor.stop()
    await db.close()
  })

  const put = (type: string, count: number) =>
    db.query('select tidegate.enqueue($1, $2, $1 || n, max_attempts => 2) from generate_series(1, $3) as n', [
      type,
      '{}',
      count,
    ])
  const finished = () =>
    db.query(`
      select type, status, count(*)::integer as jobs, max(attempts)::integer as attempts
      from tidegate.jobs where status not in ('pending', 'running') group by 1, 2 order by 1`)

  it.each(['allocate', 'spin'])(
    'ends dead after its attempts when it does %s, while every other job completes (trap 12)',
    { timeout: 80_000 },
    async (poison) => {
      await put('good', 10)
      await put(poison, 1)
      await put('straggle', 2)
      await expect.poll(finished, { timeout: 70_000, interval: 250 }).toEqual(
        [
          { type: poison, status: 'dead', jobs: 1, attempts: 2 },
          { type: 'good', status: 'completed', jobs: 10, attempts: expect.any(Number) as number },
          { type: 'straggle', status: 'completed', jobs: 2, attempts: expect.any(Number) as number },
        ].sort((a, b) => a.type.localeCompare(b.type)),
      )
      const [dead] = await db.query("select last_error, suspect from tidegate.jobs where status = 'dead'")
      expect(dead?.last_error).toMatch(/lease ended/)
      expect(printed.length).toBeGreaterThan(0)
    },
  )
})
