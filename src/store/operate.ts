import type { Sql } from '../db/sql.ts'
import { JOB_COLUMNS, readJob, type Job } from './job.ts'

/** What an operator's change of one job came to. `conflict` carries the job, whose state forbids it. */
export type Operated =
  { readonly outcome: 'ok' | 'conflict'; readonly job: Job } | { readonly outcome: 'not_found' }

/** Makes a dead or cancelled job pending and due now, with all its attempts; `by` stays in its history. */
export function requeue(sql: Sql, id: string, by: string): Promise<Operated> {
  return operate(sql, REQUEUE, [id, by])
}

/**
 * Cancels a pending job, and marks a running one: a success still completes it, everything else that would
 * let it run again cancels it. Repeating it changes nothing.
 */
export function cancel(sql: Sql, id: string): Promise<Operated> {
  return operate(sql, CANCEL, [id])
}

async function operate(sql: Sql, text: string, params: readonly string[]): Promise<Operated> {
  const [row] = await sql(text, params)
  if (row === undefined) throw new Error('expected one row from an operation on a job, got none')
  const outcome = row.outcome as Operated['outcome']
  return outcome === 'not_found' ? { outcome } : { outcome, job: readJob(row) }
}

const REQUEUE = `
  select o.outcome, ${JOB_COLUMNS}
  from tidegate.requeue($1::uuid, $2::text) as o
  where clock_timestamp() is not null`

const CANCEL = `
  select o.outcome, ${JOB_COLUMNS}
  from tidegate.cancel($1::uuid) as o
  where clock_timestamp() is not null`
