import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'

import { startPostgres } from '../../scripts/postgres.ts'
import { bundleWorker } from '../../scripts/workerd/bundle.ts'
import { startWorkerd, type Workerd } from '../../scripts/workerd.ts'
import { migrate } from '../../src/migrate.ts'

/** The shipped Worker in workerd on a Postgres of its own. */
export interface BenchWorker {
  readonly worker: Workerd
  /** A connection for looking at the result. */
  readonly client: Client
  /** Enqueues an echo job over HTTP and answers its id. */
  readonly enqueue: () => Promise<string>
  readonly stop: () => Promise<void>
}

const token = 'operator-token-of-the-bench'

export async function startBenchWorker(settings: Readonly<Record<string, string>>): Promise<BenchWorker> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-bench-'))
  const postgres = await startPostgres({ dataDir: join(folder, 'data') })
  await migrate({ url: postgres.url(), environment: 'bench' })
  const worker = await startWorkerd({
    bundle: await bundleWorker(),
    vars: {
      DATABASE_URL: postgres.url(),
      TIDEGATE_ENV: 'bench',
      OPERATOR_TOKENS: token,
      LOG_LEVEL: 'warn',
      ...settings,
    },
  })
  const client = new Client(postgres.url())
  await client.connect()
  let keys = 0
  return {
    worker,
    client,
    async enqueue() {
      keys += 1
      const response = await fetch(`${worker.url}/jobs`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify({ type: 'test.echo', payload: { n: keys }, idempotency_key: `bench-${keys}` }),
      })
      return ((await response.json()) as { id: string }).id
    },
    async stop() {
      await client.end()
      await worker.stop()
      await postgres.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
