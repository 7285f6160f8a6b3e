import type { Param, Row, Sql } from '../db/sql.ts'
import { JOB_COLUMNS, readJob, type Job } from './job.ts'

/** One job to enqueue. `payload` is JSON text and is stored as it stands. */
export interface EnqueueInput {
  readonly type: string
  readonly payload: string
  readonly idempotencyKey: string
  readonly priority?: number
  /** Milliseconds from the database's now. */
  readonly delayMs?: number
  /** RFC 3339; takes the place of `delayMs`. */
  readonly availableAt?: string
  /** Defaults to what the type has registered, else 5. */
  readonly maxAttempts?: number
  readonly traceparent?: string
  /** False makes the database refuse a type that no root has registered. Defaults to true. */
  readonly known?: boolean
}

/** A statement as a value, for whatever connection or transaction the caller holds. */
export interface Statement {
  readonly text: string
  readonly params: readonly Param[]
}

/** What an enqueue did; see the SQL function `tidegate.enqueue`. */
export type Enqueued =
  | { readonly outcome: 'created' | 'replayed' | 'reused'; readonly job: Job }
  | { readonly outcome: 'unknown_type' }

/**
 * The enqueue of one job as a value. Run inside the caller's transaction it commits with the caller's own
 * writes. Its rows are `outcome` and the columns of the job.
 */
export function enqueueStatement(input: EnqueueInput): Statement {
  return {
    text: ENQUEUE,
    params: [
      input.type,
      input.payload,
      input.idempotencyKey,
      input.priority ?? null,
      input.delayMs ?? null,
      input.availableAt ?? null,
      input.maxAttempts ?? null,
      input.traceparent ?? null,
      input.known ?? true,
    ],
  }
}

/**
 * Enqueues one job. Safe to repeat with the same key. Rejects with SQLSTATE 55P03 when an open transaction
 * holds the key for longer than two seconds.
 */
export async function enqueue(sql: Sql, input: EnqueueInput): Promise<Enqueued> {
  const { text, params } = enqueueStatement(input)
  const [row] = await sql(text, params)
  if (row === undefined) throw new Error('expected tidegate.enqueue to answer one row, got none')
  return readEnqueued(row)
}

/** The types that roots have registered, in order, at most a hundred. */
export async function knownTypes(sql: Sql): Promise<readonly string[]> {
  const rows = await sql(KNOWN_TYPES, [])
  return rows.map((row) => String(row.type))
}

function readEnqueued(row: Row): Enqueued {
  const outcome = row.outcome as Enqueued['outcome']
  return outcome === 'unknown_type' ? { outcome } : { outcome, job: readJob(row) }
}

const ENQUEUE = `
  select e.outcome, ${JOB_COLUMNS}
  from tidegate.enqueue(
    $1::text, $2::json, $3::text, $4::integer, $5::bigint, $6::timestamptz, $7::integer, $8::text, $9::boolean
  ) as e
  where clock_timestamp() is not null`

const KNOWN_TYPES = `
  select t.type
  from tidegate.types as t
  where clock_timestamp() is not null
  order by t.type
  limit 100`
