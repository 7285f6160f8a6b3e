import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'

import { openPg } from '../../src/db/pg.ts'
import { enqueue } from '../../src/store/enqueue.ts'
import { createDatabase } from '../support/database.ts'
import { counter } from '../support/store.ts'
import { startWranglerDev } from '../support/wrangler-dev.ts'

it('a Hyperdrive binding wins over DATABASE_URL, and works twice in one isolate', async () => {
  const db = await createDatabase()
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-hyperdrive-'))
  const database = openPg({ url: db.url })
  try {
    await using wrangler = await startWranglerDev({
      folder,
      hyperdrive: db.url,
      vars: {
        DATABASE_URL: 'postgres://nobody:nothing@ep-none-1.neon.tech/nowhere',
        OPERATOR_TOKENS: 'operator-secret-of-tests',
        TIDEGATE_ENV: 'test',
      },
    })
    const ready = await fetch(`${wrangler.url}/readyz`)
    expect([ready.status, await ready.json()]).toMatchObject([200, { status: 'ok', environment: 'test' }])
    for (const n of [1, 2]) {
      await enqueue(database.sql, { type: 'test.echo', payload: '{}', idempotencyKey: `job-${n}` })
      await expect(wrangler.scheduled()).resolves.toBe('ok')
      await expect(counter(db, 'jobs_processed_total', 'test.echo', 'completed')).resolves.toBe(n)
    }
  } finally {
    await database.close()
    await rm(folder, { recursive: true, force: true })
    await db.close()
  }
})
