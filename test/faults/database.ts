import { readFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { Client, Pool } from 'pg'

import { startPostgres, type Postgres } from '../../scripts/postgres.ts'
import { migrate } from '../../src/migrate.ts'
import { AUDIT, LEDGER } from './audit.ts'
import { JOURNAL_TABLES } from './journal-tables.ts'

/** Whose database the soak's is; workers of any other environment must run nothing. */
export const ENVIRONMENT = 'soak'

/** The server under attack, and the harness's own way to it, past the proxy. */
export interface SoakDatabase {
  readonly port: number
  readonly pool: Pool
  /** The URL for a client that goes to `port`, as the superuser or as the role of foreign workers. */
  readonly url: (port: number, role?: 'foreign') => string
  /** Ends the server without a checkpoint and starts it again: it comes back through crash recovery. */
  readonly restart: () => Promise<void>
  /** How often the server has reported a deadlock since it was created. */
  readonly deadlocks: () => Promise<number>
  readonly close: () => Promise<void>
}

const NAME = 'soak'
const FOREIGN = { role: 'soak_foreign', password: 'foreign' } as const

// fsync stays on: an immediate stop has to recover from what was written.
const SETTINGS = {
  max_connections: '200',
  deadlock_timeout: '300ms',
  max_wal_size: '1GB',
  track_commit_timestamp: 'on',
}

/** Starts a server in this folder, migrates a database and installs the audit. */
export async function openSoakDatabase(folder: string): Promise<SoakDatabase> {
  const dataDir = join(folder, 'data')
  const port = await findPort()
  const start = (): Promise<Postgres> => startPostgres({ dataDir, port, settings: SETTINGS })
  let server = await start()
  // A run that is interrupted exits without more ado.
  const killAtExit = (): boolean => process.kill(server.pid, 'SIGQUIT')
  process.once('exit', killAtExit)

  const url = (at: number, role?: 'foreign'): string => {
    const whole = new URL(server.url(NAME))
    whole.port = String(at)
    if (role === 'foreign') {
      whole.username = FOREIGN.role
      whole.password = FOREIGN.password
    }
    return whole.href
  }
  const close = async (): Promise<void> => {
    await server.stop('immediate')
    process.off('exit', killAtExit)
  }

  try {
    await create(server.url())
    await migrate({ url: url(port), environment: ENVIRONMENT })
    const pool = new Pool({ connectionString: url(port), max: 4, application_name: 'soak' })
    pool.on('error', () => undefined)
    await pool.query(`create schema soak; ${LEDGER}; ${JOURNAL_TABLES}; ${AUDIT}`)
    return {
      port,
      pool,
      url,
      async restart() {
        await server.stop('immediate')
        server = await start()
      },
      deadlocks: async () => (await readFile(server.logFile, 'utf8')).split('deadlock detected').length - 1,
      async close() {
        await pool.end()
        await close()
      },
    }
  } catch (error) {
    await close()
    throw error
  }
}

async function create(url: string): Promise<void> {
  const client = new Client(url)
  await client.connect()
  try {
    await client.query(`create database ${NAME}`)
    await client.query(`create role ${FOREIGN.role} login superuser password '${FOREIGN.password}'`)
  } finally {
    await client.end()
  }
}

/** Ports from here on are lent to outgoing connections, which could take ours while the server restarts. */
const EPHEMERAL = 32_768

async function findPort(): Promise<number> {
  for (;;) {
    const port = 15_000 + Math.floor(Math.random() * (EPHEMERAL - 15_000))
    if (await isFree(port)) return port
  }
}

function isFree(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  return new Promise((resolve) => {
    socket.once('connect', () => resolve(false)).once('error', () => resolve(true))
  }).then((free) => {
    socket.destroy()
    return free === true
  })
}
