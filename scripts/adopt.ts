import { parseArgs } from 'node:util'

import { isSchemaMissing } from '../src/db/errors.ts'
import { openPg } from '../src/db/pg.ts'
import { readMigrateUrl } from '../src/migrate-url.ts'
import { adopt, type Adopted, type Owner } from '../src/store/adopt.ts'

const usage = 'usage: npm run adopt -- --env <TIDEGATE_ENV> [--cancel-pending]'

try {
  const options = readOptions(process.argv.slice(2))
  const database = openPg({ url: readMigrateUrl(process.env), timeoutMs: 60_000 })
  try {
    const adopted = await adopt(database.sql, options)
    for (const line of describe(adopted, options.cancelPending)) console.log(line)
  } finally {
    await database.close()
  }
} catch (error) {
  console.error(`adopt: ${reasonOf(error)}`)
  process.exitCode = 1
}

function readOptions(args: readonly string[]): { environment: string; cancelPending: boolean } {
  const { values } = parseArgs({
    args: [...args],
    options: { env: { type: 'string' }, 'cancel-pending': { type: 'boolean', default: false } },
  })
  if (!values.env || values.env.length > 64) {
    throw new Error(
      `expected --env with 1 to 64 characters, got ${JSON.stringify(values.env ?? null)}; ${usage}`,
    )
  }
  return { environment: values.env, cancelPending: values['cancel-pending'] }
}

function describe({ outcome, from, to, cancelled, marked }: Adopted, cancelPending: boolean): string[] {
  if (outcome === 'ours')
    return [`nothing to do: the database belongs to ${nameOf(to)} already; no job was touched`]
  return [
    cancelPending
      ? `cancelled ${cancelled} pending jobs, marked ${marked} running ones: they are cancelled when their leases end`
      : "cancelled nothing: pending jobs run here, and the origin's running ones once their leases have ended",
    `adopted: the database belonged to ${nameOf(from)}, and now to ${nameOf(to)}`,
  ]
}

function nameOf({ environment, branchId }: Owner): string {
  return `environment ${JSON.stringify(environment)}${branchId === null ? '' : ` on branch ${branchId}`}`
}

function reasonOf(error: unknown): string {
  if (isSchemaMissing(error)) return 'the database has no schema tidegate: is it the right one?'
  return error instanceof Error ? error.message : String(error)
}
