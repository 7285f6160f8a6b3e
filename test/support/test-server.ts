import { rmSync } from 'node:fs'
import { mkdtemp, rm, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'

import { startPostgres, type Postgres } from '../../scripts/postgres.ts'
import { migrate } from '../../src/migrate.ts'

/** A server of the run. */
export interface TestServer {
  /** The superuser's URL. */
  readonly url: string
  /** The migrated database that tests clone. */
  readonly template: string
  /** PostgreSQL's major version. */
  readonly version: number
}

/** A server that ends with the run at the latest. */
export interface RunningServer extends TestServer {
  readonly stop: () => Promise<void>
}

const template = 'tidegate_template'

// Nothing outlives the run, so nothing needs to survive a power cut.
const settings = {
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  max_connections: '200',
  max_wal_size: '256MB',
}

/** Starts a server from a folder of programs, by default those that npm installed, and migrates its template. */
export async function startTestServer(binaries?: string): Promise<RunningServer> {
  const folder = await mkdtemp(join(await roomyMemory(), 'tidegate-test-'))
  const server = await startPostgres({ dataDir: join(folder, 'data'), settings, binaries })
  const stop = endWithRun(server, folder)
  try {
    const version = await createTemplate(server)
    return { url: server.url(), template, version, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

// A clone is three hundred new files: measured 8 ms in memory, 217 ms on ext4.
async function roomyMemory(): Promise<string> {
  const memory = '/dev/shm'
  const stats = await statfs(memory).catch(() => undefined)
  return stats !== undefined && stats.bavail * stats.bsize > 4 * 2 ** 30 ? memory : tmpdir()
}

async function createTemplate(server: Postgres): Promise<number> {
  const client = new Client(server.url())
  await client.connect()
  try {
    await client.query(`create database ${template}`)
    await migrate({ url: server.url(template), environment: 'test' })
    // A connection to the template would make every clone wait.
    await client.query(`alter database ${template} is_template true allow_connections false`)
    const { rows } = await client.query<{ version: number }>(
      `select current_setting('server_version_num')::integer / 10000 as version`,
    )
    return rows[0]?.version ?? 0
  } finally {
    await client.end()
  }
}

// A run that is interrupted exits without its teardown.
function endWithRun(server: Postgres, folder: string): () => Promise<void> {
  const endNow = (): void => {
    process.kill(server.pid, 'SIGQUIT')
    rmSync(folder, { recursive: true, force: true, maxRetries: 10 })
  }
  process.once('exit', endNow)
  return async () => {
    await server.stop('immediate')
    process.off('exit', endNow)
    await rm(folder, { recursive: true, force: true })
  }
}
