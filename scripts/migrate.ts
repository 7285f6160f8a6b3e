import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Client } from 'pg'

import { readMigrateUrl } from '../src/migrate-url.ts'
import { migrate } from '../src/migrate.ts'
import { migrationScript } from '../src/migration-script.ts'
import { ROLES_SQL } from '../src/roles.ts'

const { env } = process
const environment = env['TIDEGATE_ENV'] || 'production'

try {
  const { values } = parseArgs({
    options: { print: { type: 'boolean' }, roles: { type: 'boolean' } },
  })
  if (values.print === true) await print(values.roles === true)
  else await apply(values.roles === true)
} catch (error) {
  console.error(`migrate: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = 1
}

async function print(withRoles: boolean): Promise<void> {
  const script = await migrationScript(join(import.meta.dirname, '..', 'migrations'), environment)
  process.stdout.write(withRoles ? `${script}${ROLES_SQL}` : script)
}

async function apply(withRoles: boolean): Promise<void> {
  const url = readMigrateUrl(env)
  const { applied, newer } = await migrate({ url, environment })
  for (const file of applied) console.log(`applied ${file}`)
  if (newer.length > 0) {
    console.log(`left alone: the database is newer than these files (${newer.join(', ')})`)
  } else if (applied.length === 0) {
    console.log('nothing to do')
  }
  if (withRoles) await createRoles(url)
}

async function createRoles(url: string): Promise<void> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(ROLES_SQL)
    console.log('roles tidegate_producer, tidegate_worker and tidegate_operator are up to date')
  } finally {
    await client.end()
  }
}
