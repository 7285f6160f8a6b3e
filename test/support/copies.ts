import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { inject } from 'vitest'

import { createDatabase, type TestDatabase } from './database.ts'

/** A copy as a provider's branch is one: the files, but not the settings of the database. */
export async function cloneDatabase(origin: TestDatabase): Promise<TestDatabase> {
  const server = inject('postgres')
  const admin = new Client(server.url)
  await admin.connect()
  try {
    // A template must have no connections.
    const end = 'select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = $1'
    await admin.query(end, [origin.name])
  } finally {
    await admin.end()
  }
  return createDatabase({ ...server, template: origin.name })
}

/** A copy as a dump is one: its tables, in the format in which pg_dump writes them, in a schema made by the migrations. */
export async function restoreTables(from: TestDatabase): Promise<TestDatabase> {
  const into = await createDatabase()
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-copy-'))
  // The server may run under another account.
  await chmod(folder, 0o777)
  try {
    for (const table of await tablesOf(from)) {
      await from.query(`copy tidegate.${table} to '${join(folder, table)}'`)
      await into.query(`truncate tidegate.${table}`)
      await into.query(`copy tidegate.${table} from '${join(folder, table)}'`)
    }
    return into
  } finally {
    await rm(folder, { recursive: true })
  }
}

async function tablesOf(database: TestDatabase): Promise<readonly string[]> {
  const rows = await database.query<{ name: string }>(
    "select tablename as name from pg_tables where schemaname = 'tidegate' order by 1",
  )
  return rows.map(({ name }) => name)
}

/** Every row of every table of ours, as text. */
export async function dump(database: TestDatabase): Promise<string> {
  const tables = await Promise.all(
    (await tablesOf(database)).map(async (table) => {
      const rows = await database.query<{ row: string }>(
        `select t::text as row from tidegate.${table} as t order by 1`,
      )
      return [`${table}:`, ...rows.map(({ row }) => row)].join('\n')
    }),
  )
  return tables.join('\n')
}
