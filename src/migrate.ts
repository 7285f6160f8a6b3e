import { join } from 'node:path'
import { Client, DatabaseError } from 'pg'
import Postgrator from 'postgrator'

import { SQLSTATE } from './db/errors.ts'
import {
  expectAgreement,
  expectFileNames,
  fileNameOf,
  globOf,
  newestOf,
  type Migration,
} from './migration-files.ts'

/** The key of the advisory lock under which one migration runs at a time: "tide" in ASCII. */
export const migrationLock = 0x74696465

/** Which database to migrate, whose it is, and with what. */
export interface MigrateOptions {
  /** Connection URL of a role that may create the schema `tidegate`; a transaction pooler is fine. */
  readonly url: string
  /** Recorded by the first migration and never overwritten, so that a copy keeps the name of its origin. */
  readonly environment: string
  /** Folder of the files `0001.do.<name>.sql`. Defaults to the one that comes with this package. */
  readonly directory?: string | undefined
  /** How long to wait for another migration, and for each lock that a file takes. Defaults to 10 000. */
  readonly lockTimeoutMs?: number | undefined
}

/** What a migration did, as file names in order. */
export interface MigrateResult {
  readonly applied: readonly string[]
  /** Migrations that the database has and the folder has not. If there are any, nothing was done. */
  readonly newer: readonly string[]
}

/**
 * Brings the schema `tidegate` up to date and records the environment, in one transaction under one lock: a
 * crash leaves nothing half done, and of two calls at once the second waits and finds nothing to do.
 *
 * A database that is newer than the files is left alone, and `newer` says so: a deployment that is rolled
 * back must still start. Throws when the server is older than PostgreSQL 15, when an applied file has changed,
 * is missing or was overtaken, when a file fails (naming it), and when a lock does not come in time.
 */
export async function migrate(options: MigrateOptions): Promise<MigrateResult> {
  const { directory = join(import.meta.dirname, '..', 'migrations'), lockTimeoutMs = 10_000 } = options
  await expectFileNames(directory)
  const client = await connect(options.url)
  try {
    await expectServer(client)
    // A snapshot older than the wait for the lock would not show what the other migration did.
    await client.query('begin isolation level read committed')
    await takeLock(client, lockTimeoutMs)
    const result = await applyFiles(client, directory)
    if (result.newer.length === 0) await recordEnvironment(client, options.environment)
    await client.query('commit')
    return result
  } catch (error) {
    await client.query('rollback').catch(() => undefined)
    throw error
  } finally {
    await client.end()
  }
}

async function connect(url: string): Promise<Client> {
  if (!/^postgres(ql)?:\/\//.test(url) || !URL.canParse(url)) {
    throw new Error('expected a database URL like postgres://user:password@host/database, got something else')
  }
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 10_000 })
  // The query under way rejects as well; without a listener the event would end the process.
  client.on('error', () => undefined)
  try {
    await client.connect()
    return client
  } catch (error) {
    await client.end()
    throw new Error(`could not connect to the database: ${reasonOf(error)}`, { cause: error })
  }
}

async function expectServer(client: Client): Promise<void> {
  const { rows } = await client.query<{ version: string }>(`
    select current_setting('server_version') as version
    where current_setting('server_version_num')::integer < 150000
  `)
  if (rows[0] !== undefined) throw new Error(`expected PostgreSQL 15 or newer, got ${rows[0].version}`)
}

async function takeLock(client: Client, lockTimeoutMs: number): Promise<void> {
  // The time zone: postgrator records run_at in UTC without saying so.
  await client.query(
    `select set_config('lock_timeout', $1::text, true), set_config('timezone', 'UTC', true)`,
    [`${lockTimeoutMs}ms`],
  )
  try {
    await client.query('select pg_advisory_xact_lock($1::bigint)', [migrationLock])
  } catch (error) {
    if (!isLockTimeout(error)) throw error
    throw new Error(
      `another migration is running, and did not end within the lock timeout of ${lockTimeoutMs} ms`,
      {
        cause: error,
      },
    )
  }
}

async function applyFiles(client: Client, directory: string): Promise<MigrateResult> {
  const postgrator = new Postgrator({
    driver: 'pg',
    schemaTable: 'tidegate.migrations',
    migrationPattern: globOf(directory),
    // Checksums must not depend on how git checked the files out.
    newline: 'LF',
    execQuery: (text) => client.query(text),
  })
  const files = await postgrator.getMigrations()
  const records = await readRecords(client)
  expectAgreement(files, records)
  const newer = records.filter(({ version }) => version > newestOf(files)).map(fileNameOf)
  return { applied: newer.length > 0 ? [] : await applyPending(postgrator), newer }
}

async function readRecords(client: Client): Promise<Migration[]> {
  const { rows: found } = await client.query(`select where to_regclass('tidegate.migrations') is not null`)
  if (found.length === 0) return []
  // Row 0 is postgrator's own mark of an empty history.
  const { rows } = await client.query<Migration>(`
    select version::integer as version, name, md5
    from tidegate.migrations
    where version > 0
    order by version
  `)
  return rows
}

async function applyPending(postgrator: Postgrator): Promise<string[]> {
  let current = 'table'
  postgrator.on('migration-started', (file) => (current = fileNameOf(file)))
  try {
    return (await postgrator.migrate()).map(fileNameOf)
  } catch (error) {
    throw new Error(`migration ${current} failed: ${reasonOf(error)}`, { cause: error })
  }
}

async function recordEnvironment(client: Client, environment: string): Promise<void> {
  await client.query(
    `
    insert into tidegate.meta (environment, branch_id)
    values ($1::text, current_setting('neon.branch_id', true))
    on conflict do nothing
    `,
    [environment],
  )
}

function isLockTimeout(error: unknown): boolean {
  return error instanceof DatabaseError && error.code === SQLSTATE.lockNotAvailable
}

// Node reports a refused connection to a name with two addresses as an AggregateError without a message.
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join(', ')
  return error instanceof Error ? error.message : String(error)
}
