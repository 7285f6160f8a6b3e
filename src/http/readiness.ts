import { errorFields } from '../caller.ts'
import { DatabaseError, isSchemaMissing } from '../db/errors.ts'
import type { Sql } from '../db/sql.ts'
import type { Logger } from '../log.ts'
import { readReadiness, SCHEMA_VERSIONS, type Readiness } from '../store/ready.ts'
import { wrongDatabase } from '../wrong-database.ts'

/** Whether jobs can be enqueued and run here: without problems they can. */
export interface ReadinessReport {
  readonly problems: readonly string[]
  /** Absent when the database could not be asked. */
  readonly state?: Readiness
}

/** Asks the database, in one call. Never rejects for what the database is or does. */
export async function checkReadiness(sql: Sql, environment: string, log: Logger): Promise<ReadinessReport> {
  try {
    const state = await readReadiness(sql, environment)
    return { problems: problemsOf(state), state }
  } catch (error) {
    if (!(error instanceof DatabaseError)) throw error
    log.warn('readiness check failed', errorFields(error))
    return { problems: [problemOf(error)] }
  }
}

function problemsOf({ ownership, schemaVersion, isolation }: Readiness): readonly string[] {
  const { oldest, newest } = SCHEMA_VERSIONS
  const problems: string[] = []
  if (schemaVersion < oldest) {
    problems.push(
      `expected a schema of version ${oldest} to ${newest}, got ${schemaVersion}: run \`npm run migrate\``,
    )
  }
  if (schemaVersion > newest) {
    problems.push(
      `expected a schema of version ${oldest} to ${newest}, got ${schemaVersion}: deploy a newer release`,
    )
  }
  if (!ownership.matches) problems.push(wrongDatabase(ownership))
  if (isolation !== 'read committed') {
    problems.push(`expected the isolation level read committed, got ${isolation}`)
  }
  return problems
}

/** Anyone may read it, so it does not quote the error: that can name hosts and roles. */
function problemOf(error: DatabaseError): string {
  if (isSchemaMissing(error)) return 'the database has no schema of this release: run `npm run migrate`'
  return error.kind === 'definite' ? 'the database refuses to answer' : 'the database cannot be reached'
}
