import type { Database, Sql } from '../../src/db/sql.ts'
import type { Settlement } from '../../src/core/outcome.ts'
import { enqueue, type EnqueueInput } from '../../src/store/enqueue.ts'
import type { Job } from '../../src/store/job.ts'
import {
  work,
  type Claim,
  type LeasedJob,
  type Settle,
  type WorkAnswer,
  type WorkRequest,
} from '../../src/store/work.ts'
import { createDatabase, type TestDatabase } from './database.ts'
import { listDrivers, type Driver } from './drivers.ts'

/** The drivers of this run. Every store test runs over each of them. */
export const drivers: readonly Driver[] = listDrivers()

/** A database with a driver under test in front of it. */
export interface Store {
  readonly db: TestDatabase
  readonly sql: Sql
  /** Another connection of the same driver. */
  readonly another: () => Database
  /** Moves the database's clock, which only ever goes forward, to `ms` after the real one. */
  readonly moveClock: (ms: number) => Promise<void>
  readonly close: () => Promise<void>
}

export async function openStore(driver: Driver): Promise<Store> {
  const db = await createDatabase(driver.server)
  const opened: Database[] = []
  const another = () => {
    const database = checked(driver.open(db.url))
    opened.push(database)
    return database
  }
  return {
    db,
    sql: another().sql,
    another,
    moveClock: (ms) => moveClock(db, ms),
    async close() {
      await Promise.all(opened.map((database) => database.close()))
      await db.close()
    },
  }
}

/** Replaces the one seam for time in this database. */
export async function moveClock(db: TestDatabase, ms: number): Promise<void> {
  await db.query(`
    create or replace function tidegate.now() returns timestamptz
    language sql stable parallel safe
    return pg_catalog.now() + ${Math.round(ms)} * interval '1 millisecond'`)
}

/** A cache in front of Postgres may answer a statement that names no volatile function: none of ours may lack one. */
function checked(database: Database): Database {
  return {
    ...database,
    sql(text, params) {
      if (!text.includes('clock_timestamp()')) throw new Error(`expected a volatile function in ${text}`)
      return database.sql(text, params)
    },
  }
}

export const environment = 'test'

let keys = 0

/** Enqueues a job of type `t` with a fresh key, whatever the fields leave open. */
export async function put(sql: Sql, fields: Partial<EnqueueInput> = {}): Promise<Job> {
  keys += 1
  const input = { type: 't', payload: '{}', idempotencyKey: `key-${keys}`, ...fields }
  const enqueued = await enqueue(sql, input)
  if (enqueued.outcome === 'unknown_type') throw new Error('expected a known type')
  return enqueued.job
}

/** One `work` call of a root that has the types `t` and `u`. */
export function step(sql: Sql, request: Partial<WorkRequest> = {}): Promise<WorkAnswer> {
  return work(sql, {
    environment,
    tick: crypto.randomUUID(),
    types: ['t', 'u'],
    register: ['t', 'u'].map((type) => ({ type, timeoutMs: 1_000, maxAttempts: 5 })),
    settles: [],
    held: [],
    expired: 0,
    ...request,
  })
}

/** A claim with a fresh token. */
export function claimOf(fields: Partial<Claim> = {}): Claim {
  return {
    token: crypto.randomUUID(),
    limit: 10,
    bytes: 4_000_000,
    leaseMs: 60_000,
    types: ['t', 'u'],
    suspects: false,
    yieldTo: [],
    ...fields,
  }
}

/** Leases due jobs. */
export async function claim(sql: Sql, fields: Partial<Claim> = {}): Promise<readonly LeasedJob[]> {
  const { jobs } = await step(sql, { claim: claimOf(fields) })
  return jobs
}

/** Settles leases in one call and returns the verdicts in the order of the leases. */
export async function settle(
  sql: Sql,
  leases: readonly { readonly id: string; readonly token: string }[],
  settlement: Settlement,
  extra: Partial<Settle> = {},
): Promise<readonly (string | undefined)[]> {
  const settles = leases.map(({ id, token }) => ({ id, token, settlement, ...extra }))
  const { verdicts } = await step(sql, { settles })
  return leases.map(({ id }) => verdicts.get(id)?.verdict)
}

export const retry = (fields: object = {}): Settlement => ({
  kind: 'retry',
  delayMs: 1_000,
  error: 'it broke',
  outcome: 'failed',
  held: false,
  crashed: false,
  ...fields,
})

export const dead = (fields: object = {}): Settlement => ({
  kind: 'dead',
  error: 'it broke for good',
  held: false,
  outcome: 'failed',
  crashed: false,
  ...fields,
})

/** The value of one counter: totals and unfolded changes. */
export async function counter(db: TestDatabase, name: string, type = 't', label = ''): Promise<number> {
  const [row] = await db.query<{ value: string }>(
    `select coalesce(sum(value), 0) as value
     from (select name, type, label, value from tidegate.counters
           union all select name, type, label, value from tidegate.counter_deltas) as c
     where name = $1 and type = $2 and label = $3`,
    [name, type, label],
  )
  return Number(row?.value)
}
