import { join } from 'node:path'
import { readMigrateUrl } from '../../src/migrate-url.ts'
import { migrate } from '../../src/migrate.ts'
import { startPostgres } from '../postgres.ts'
import { stopLeftServer } from './left-server.ts'
import type { StartSettings } from './settings.ts'

/** A database with the schema `tidegate` in it. */
export interface Database {
  readonly url: string
  /** Rejects when a server that is ours has ended. Pends for ever when it is not ours. */
  readonly lost: Promise<never>
}

/** How to open one. */
export interface DatabaseOptions {
  readonly settings: StartSettings
  /** Whether the last start was killed, so that its server may still be there. */
  readonly wasKilled: boolean
  /** Stops our server. */
  readonly running: AsyncDisposableStack
  readonly print: (line: string) => void
}

/** Opens and migrates the database that `DATABASE_URL` names, or else one of our own in the data folder. */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  const { settings, print } = options
  const { DATABASE_URL } = settings
  const database =
    DATABASE_URL === undefined
      ? await startOwn(options)
      : { url: DATABASE_URL, lost: Promise.withResolvers<never>().promise }
  const url = DATABASE_URL === undefined ? database.url : readMigrateUrl(process.env)
  const { newer } = await migrate({ url, environment: settings.TIDEGATE_ENV })
  if (newer.length > 0) print(`the database is newer than this release: it has ${newer.join(', ')}`)
  return database
}

async function startOwn({ settings, wasKilled, running, print }: DatabaseOptions): Promise<Database> {
  const dataDir = join(settings.DATA_DIR, 'postgres')
  const left = wasKilled ? await stopLeftServer(dataDir) : undefined
  if (left !== undefined) print(`stopped postgres (process ${left}), left by an npm start that was killed`)
  const server = await startPostgres({ dataDir })
  running.defer(() => server.stop())
  const lost = server.exited.then((how) => {
    throw new Error(`postgres ended with ${how}: start again to go on with the same data`)
  })
  // Nobody may listen yet, and nobody does any more when we stop it.
  lost.catch(() => undefined)
  return { url: server.url(), lost }
}
