import { setTimeout as sleep } from 'node:timers/promises'

import type { SoakDatabase } from './database.ts'
import type { DatabaseClock } from './database-clock.ts'
import type { Fleet } from './fleet.ts'
import type { Journal } from './journal.ts'
import type { Lanes } from './lanes.ts'
import type { Interference } from './proxy.ts'
import type { Fault } from './schedule.ts'
import { LEASE_MARGIN_MS, WINDOW_MS } from './windows.ts'

/** What faults are injected into. */
export interface Target {
  readonly database: SoakDatabase
  readonly fleet: Fleet
  readonly lanes: Lanes
  readonly clock: DatabaseClock
  readonly journal: Journal
}

/** Injects a fault. Resolves to false when there was nothing to hit. */
export async function inject(fault: Fault, target: Target): Promise<boolean> {
  const { database, fleet, lanes } = target
  const { kind, aim, extent } = fault
  const lane = lanes.at(aim)
  const arm = (interference: Interference, ms = 0): boolean => {
    lane.arm(interference, Math.floor(aim * 1_000) % 6, ms)
    return true
  }
  switch (kind) {
    case 'worker killed':
      return fleet.killWorker(aim)
    case 'worker told to end':
      return fleet.endWorker(aim)
    case 'worker stopped beyond its leases':
      return fleet.stopWorker(aim, WINDOW_MS + LEASE_MARGIN_MS + 500 + extent * 2_000)
    case 'producer killed':
      return fleet.killProducer(aim)
    case 'backend terminated':
      return signalBackends(database, 'pg_terminate_backend', aim, 1)
    case 'all backends terminated':
      return signalBackends(database, 'pg_terminate_backend', 0, 1_000)
    case 'query cancelled':
      return signalBackends(database, 'pg_cancel_backend', aim, 3)
    case 'postgres restarted':
      await database.restart()
      return true
    case 'cut before the statement':
      return arm('before')
    case 'cut after the commit':
      return arm('after')
    case 'cut half way through the answer':
      return arm('half')
    case 'black hole':
      return arm('hole', Math.round(500 + extent * 3_500))
    case 'statement delivered late':
      return arm('late', 300 + extent * 4_500)
    case 'all connections cut':
      lanes.all.forEach((each) => each.cutAll())
      return true
    case 'network silent':
      lane.partition(2_000 + extent * 4_000)
      return true
    case 'connections refused':
      lanes.all.forEach((each) => each.refuse(300 + extent * 1_200))
      return true
    case 'rows locked':
      return lockRows(target, aim, extent > 0.9 ? 6_000 : 200 + extent * 2_000)
  }
}

/** Terminates or cancels sessions of workers and producers, from the `aim`-th on. */
async function signalBackends(
  { pool }: SoakDatabase,
  signal: 'pg_terminate_backend' | 'pg_cancel_backend',
  aim: number,
  limit: number,
): Promise<boolean> {
  const { rows } = await pool.query(
    `with sessions as (
       select a.pid, row_number() over (order by a.backend_start, a.pid) as place, count(*) over () as total
       from pg_stat_activity as a
       where a.datname = current_database() and a.application_name in ('tidegate', 'caller')
     )
     select ${signal}(s.pid)
     from sessions as s
     where s.place > floor($1::float8 * s.total)
     order by s.place
     limit $2::integer`,
    [aim, limit],
  )
  return rows.length > 0
}

/** Holds the rows of some jobs, leased ones before others, in the order in which everybody locks them. */
async function lockRows({ database, clock, journal }: Target, aim: number, ms: number): Promise<boolean> {
  const client = await database.pool.connect()
  // The server may be restarted while nothing is under way; without a listener that would end the harness.
  client.on('error', () => undefined)
  const began_at = clock.now()
  let locked: readonly { readonly id: string }[] = []
  let failure: Error | undefined
  try {
    await client.query('begin')
    const { rows } = await client.query<{ id: string }>(
      `with busy as materialized (
         select j.id from tidegate.jobs as j
         where j.status in ('running', 'pending')
         order by j.status desc, j.available_at
         limit 5 offset floor($1::float8 * 5)
       )
       select j.id from tidegate.jobs as j where j.id in (select b.id from busy as b) order by j.id for update`,
      [aim],
    )
    locked = rows
    await sleep(ms)
    await client.query('rollback')
    return rows.length > 0
  } catch (error) {
    failure = error as Error
    throw error
  } finally {
    // A server that was restarted has let go of them too, at the latest by now.
    for (const { id } of locked) journal.write('locks', { job: id, began_at, ended_at: clock.now() })
    client.release(failure)
  }
}
