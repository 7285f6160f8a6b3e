import type { Row, Sql } from '../db/sql.ts'
import { JOB_COLUMNS, readJob, type Job } from './job.ts'

/** Why a pending job does not run at this moment. */
export type WaitingFor =
  | { readonly reason: 'due'; readonly dueInSeconds: number }
  | { readonly reason: 'paused' }
  | { readonly reason: 'no_handler' }
  | { readonly reason: 'tick'; readonly lastTickAgeSeconds: number | null }

/** A job and, while it is pending, what it waits for. */
export interface JobView {
  readonly job: Job
  readonly waitingFor: WaitingFor | null
}

/** Reads one job; undefined when there is none with this id. */
export async function getJob(sql: Sql, id: string): Promise<JobView | undefined> {
  const [row] = await sql(GET, [id])
  if (row === undefined) return undefined
  const job = readJob(row)
  return { job, waitingFor: job.status === 'pending' ? readWaitingFor(row) : null }
}

function readWaitingFor(row: Row): WaitingFor {
  const dueInSeconds = Number(row.due_in_seconds)
  if (dueInSeconds > 0) return { reason: 'due', dueInSeconds }
  if (row.registered !== true) return { reason: 'no_handler' }
  if (row.paused === true) return { reason: 'paused' }
  const age = row.last_tick_age_seconds
  return { reason: 'tick', lastTickAgeSeconds: age === null ? null : Number(age) }
}

const GET = `
  select
    ${JOB_COLUMNS},
    extract(epoch from (job).available_at - tidegate.now())::float8 as due_in_seconds,
    t.type is not null as registered,
    (t.paused_at is not null or m.paused_at is not null) as paused,
    (
      select extract(epoch from tidegate.now() - k.ended_at)::float8
      from tidegate.ticks as k
      order by k.ended_at desc
      limit 1
    ) as last_tick_age_seconds
  from (select j from tidegate.jobs as j where j.id = $1::uuid) as found (job)
  left join tidegate.types as t on t.type = (job).type
  left join tidegate.meta as m on true
  where clock_timestamp() is not null`
