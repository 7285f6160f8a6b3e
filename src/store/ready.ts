import type { Sql } from '../db/sql.ts'
import { data, readOwnership, type Ownership } from './work.ts'

/**
 * The migrations, by number, after which this release runs. `oldest` is the last file that it needs. Those
 * up to `newest` belong to its major version and only add, so an app that was rolled back runs on them too.
 */
export const SCHEMA_VERSIONS = { oldest: 7, newest: 999 } as const

/** What `/readyz` needs to know of the database. */
export interface Readiness {
  readonly ownership: Ownership
  /** The number of the last migration applied; 0 when there is none. */
  readonly schemaVersion: number
  readonly isolation: string
  readonly lastTickAgeSeconds: number | null
  readonly expiredLeases: number
}

/** Reads the state of the database in one call. Rejects when the schema is missing. */
export async function readReadiness(sql: Sql, environment: string): Promise<Readiness> {
  const rows = await sql(READY, [environment])
  const [state] = data<ReadyData>(rows, 'state')
  return {
    ownership: readOwnership(rows),
    schemaVersion: state?.data.schema_version ?? 0,
    isolation: state?.data.isolation ?? 'unknown',
    lastTickAgeSeconds: state?.data.last_tick_age_seconds ?? null,
    expiredLeases: state?.data.expired_leases ?? 0,
  }
}

interface ReadyData {
  readonly schema_version: number
  readonly isolation: string
  readonly last_tick_age_seconds: number | null
  readonly expired_leases: number
}

// The count of expired leases stops at a thousand, so that the answer stays cheap.
const READY = `
  select w.kind, null as id, w.data::text as data, null as payload
  from tidegate.whose($1::text) as w
  where clock_timestamp() is not null
  union all
  select 'state', null, json_build_object(
    'schema_version', (select max(m.version) from tidegate.migrations as m),
    'isolation', current_setting('transaction_isolation'),
    'last_tick_age_seconds', (
      select round(extract(epoch from tidegate.now() - t.ended_at), 3)
      from tidegate.ticks as t
      order by t.ended_at desc
      limit 1
    ),
    'expired_leases', (
      select count(*)
      from (
        select from tidegate.jobs as j
        where j.status = 'running' and j.lease_until <= tidegate.now()
        limit 1000
      ) as e
    )
  )::text, null`
