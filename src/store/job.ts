import type { Status } from '../core/job.ts'
import type { Row } from '../db/sql.ts'

/** A job as it is stored. Instants are RFC 3339 in UTC with microseconds; `payload` and `result` are JSON texts. */
export interface Job {
  readonly id: string
  readonly type: string
  readonly status: Status
  readonly priority: number
  readonly attempts: number
  readonly maxAttempts: number
  readonly suspect: boolean
  readonly idempotencyKey: string
  readonly payload: string
  readonly result: string | null
  readonly lastError: string | null
  readonly availableAt: string
  readonly createdAt: string
  readonly updatedAt: string
  readonly startedAt: string | null
  readonly completedAt: string | null
  readonly diedAt: string | null
  readonly cancelledAt: string | null
  readonly cancelRequestedAt: string | null
}

/** The select list that {@link readJob} reads, of a row or composite called `job`. */
export const JOB_COLUMNS = `
  (job).id::text as id,
  (job).type as type,
  (job).status as status,
  (job).priority::integer as priority,
  (job).attempts::integer as attempts,
  (job).max_attempts::integer as max_attempts,
  (job).suspect as suspect,
  (job).idempotency_key as idempotency_key,
  (job).payload::text as payload,
  (job).result::text as result,
  (job).last_error as last_error,
  tidegate.iso((job).available_at) as available_at,
  tidegate.iso((job).created_at) as created_at,
  tidegate.iso((job).updated_at) as updated_at,
  tidegate.iso((job).started_at) as started_at,
  tidegate.iso((job).completed_at) as completed_at,
  tidegate.iso((job).died_at) as died_at,
  tidegate.iso((job).cancelled_at) as cancelled_at,
  tidegate.iso((job).cancel_requested_at) as cancel_requested_at`

/** Reads a row of {@link JOB_COLUMNS}. */
export function readJob(row: Row): Job {
  const columns = row as unknown as JobRow
  return {
    id: columns.id,
    type: columns.type,
    status: columns.status,
    priority: columns.priority,
    attempts: columns.attempts,
    maxAttempts: columns.max_attempts,
    suspect: columns.suspect,
    idempotencyKey: columns.idempotency_key,
    payload: columns.payload,
    result: columns.result,
    lastError: columns.last_error,
    availableAt: columns.available_at,
    createdAt: columns.created_at,
    updatedAt: columns.updated_at,
    startedAt: columns.started_at,
    completedAt: columns.completed_at,
    diedAt: columns.died_at,
    cancelledAt: columns.cancelled_at,
    cancelRequestedAt: columns.cancel_requested_at,
  }
}

interface JobRow {
  readonly id: string
  readonly type: string
  readonly status: Status
  readonly priority: number
  readonly attempts: number
  readonly max_attempts: number
  readonly suspect: boolean
  readonly idempotency_key: string
  readonly payload: string
  readonly result: string | null
  readonly last_error: string | null
  readonly available_at: string
  readonly created_at: string
  readonly updated_at: string
  readonly started_at: string | null
  readonly completed_at: string | null
  readonly died_at: string | null
  readonly cancelled_at: string | null
  readonly cancel_requested_at: string | null
}
