import { statementError } from '../../src/db/errors.ts'
import type { Sql } from '../../src/db/sql.ts'
import type { TestDatabase } from './database.ts'

/** A transaction that stays open until the test ends it. */
export interface OpenTransaction {
  readonly sql: Sql
  /** The session's process id on the server. */
  readonly pid: number
  readonly end: (how: End) => Promise<void>
}

/** How a transaction ends. */
export type End = 'commit' | 'rollback'

/** Begins a transaction on a connection of its own, READ COMMITTED as every statement of ours expects. */
export async function begin(db: TestDatabase): Promise<OpenTransaction> {
  const client = await db.connect()
  await client.query('begin isolation level read committed')
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
  return {
    sql: async (text, params) => {
      try {
        return (await client.query<Record<string, unknown>>(text, [...params])).rows
      } catch (error) {
        throw statementError(error)
      }
    },
    pid: rows[0]?.pid ?? 0,
    async end(how) {
      await client.query(how)
      await client.end()
    },
  }
}

/** Resolves to true when so many sessions wait for this one, to false when `other` has ended before. */
export async function blocks(
  db: TestDatabase,
  { pid }: Pick<OpenTransaction, 'pid'>,
  other: Promise<unknown>,
  sessions = 1,
): Promise<boolean> {
  let ended = false
  const end = () => {
    ended = true
  }
  other.then(end, end)
  while (!ended) {
    if ((await waitingFor(db, pid)) >= sessions) return true
  }
  return false
}

/** How many sessions wait for a lock of this one, or behind one that does. */
async function waitingFor(db: TestDatabase, pid: number): Promise<number> {
  const rows = await db.query(
    `with recursive waiting (pid) as (
       select a.pid from pg_stat_activity as a where $1::integer = any (pg_blocking_pids(a.pid))
       union
       select a.pid from waiting as w join pg_stat_activity as a on w.pid = any (pg_blocking_pids(a.pid))
     )
     select pid from waiting`,
    [pid],
  )
  return rows.length
}
