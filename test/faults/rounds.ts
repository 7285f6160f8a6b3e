import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { PostgresStartError } from '../../scripts/postgres/error.ts'
import { BEGIN_ROUND } from './audit.ts'
import { LOCK_ORDER } from './checks/check.ts'
import { runChecks, type Finding } from './checks/run.ts'
import { ENVIRONMENT, type SoakDatabase } from './database.ts'
import type { DatabaseClock } from './database-clock.ts'
import { inject, type Target } from './faults.ts'
import { startFleet, type Fleet } from './fleet.ts'
import { loadJournals, openJournal, type Journal } from './journal.ts'
import type { Lanes } from './lanes.ts'
import { createRandom, seedFor } from './random.ts'
import { planFaults, type Fault } from './schedule.ts'

/** What a run sets up once for all its rounds. */
export interface Arena {
  readonly folder: string
  readonly database: SoakDatabase
  readonly clock: DatabaseClock
  readonly lanes: Lanes
  readonly seed: number
  readonly jobsPerMinute: number
  readonly print: (line: string) => void
}

/** What one round came to. */
export interface Round {
  readonly findings: readonly Finding[]
  readonly faults: ReadonlyMap<string, number>
  readonly jobs: number
  readonly runs: number
  readonly ticks: number
  readonly drainMs: number
}

const FAULT_EVERY_MS = 400
const SAMPLE_EVERY_MS = 400
const DRAIN_LIMIT_MS = 28_000
/** So long after the last worker has ended, what it had under way has ended too. */
const SETTLED_MS = 500

/**
 * One round: `chaosMs` of load and faults, then a drain without either, until nothing is pending or leased, and
 * then the checks. Retries, snoozes and delays are short enough for the drain to wait for them in real time.
 */
export async function runRound(arena: Arena, number: number, chaosMs: number): Promise<Round> {
  const { database, clock, lanes, folder } = arena
  const deadlocksBefore = await database.deadlocks()
  await database.pool.query(BEGIN_ROUND)
  const journal = openJournal(join(folder, `harness.${number}.jsonl`))
  const schedule = planFaults(createRandom(seedFor(arena.seed, number)), chaosMs, FAULT_EVERY_MS)
  const fleet = startFleet({
    folder,
    round: number,
    environment: ENVIRONMENT,
    urlOf: (crew) => database.url(lanes.of(crew).port, crew.role === 'foreign' ? 'foreign' : undefined),
    directUrl: database.url(database.port),
    jobsPerMinute: arena.jobsPerMinute,
    seed: arena.seed,
    clock,
    journal,
  })
  const stopSampling = sample(arena, journal)
  await unleash(schedule, chaosMs, { database, fleet, lanes, clock, journal }, (kind) =>
    journal.write('faults', { kind, at: clock.now() }),
  )
  const drainMs = await drain(arena, fleet)
  await stopSampling()
  await sleep(SETTLED_MS)
  await noteSessions(arena, journal, 'after')
  journal.close()

  await loadJournals(folder, database.pool)
  const deadlocks = (await database.deadlocks()) - deadlocksBefore
  const lockOrder = {
    check: LOCK_ORDER,
    examined: await count(database, 'soak.audit'),
    violations: deadlocks,
    samples: [],
  }
  return {
    findings: [...(await runChecks(database.pool)), lockOrder],
    faults: await countFaults(database),
    jobs: await count(database, "soak.steps where verb = 'enqueue'"),
    runs: await count(database, 'soak.starts'),
    ticks: await count(database, 'soak.ticks'),
    drainMs,
  }
}

/** Injects each fault at its time, and returns when the chaos is over and no fault is under way any more. */
async function unleash(
  schedule: readonly Fault[],
  chaosMs: number,
  target: Target,
  note: (kind: string) => void,
): Promise<void> {
  const began = performance.now()
  const underWay: Promise<void>[] = []
  for (const fault of schedule) {
    await sleep(Math.max(0, fault.atMs - (performance.now() - began)))
    underWay.push(
      inject(fault, target).then(
        (hit) => (hit ? note(fault.kind) : undefined),
        // The server can be away or cut our own connection: then this one fault has missed.
        (error: unknown) => {
          if (error instanceof PostgresStartError) throw error
        },
      ),
    )
  }
  await sleep(Math.max(0, chaosMs - (performance.now() - began)))
  await Promise.all(underWay)
}

/** Heals everything, lets the workers finish what is there, and ends all processes. */
async function drain({ database, lanes }: Arena, fleet: Fleet): Promise<number> {
  const began = performance.now()
  lanes.all.forEach((lane) => lane.heal())
  fleet.wake()
  await fleet.endProducers()
  while (performance.now() - began < DRAIN_LIMIT_MS) {
    const left = await count(database, "tidegate.jobs where status in ('pending', 'running')")
    if (left === 0) break
    await sleep(200)
  }
  const took = performance.now() - began
  await fleet.endWorkers()
  return took
}

function sample(arena: Arena, journal: Journal): () => Promise<void> {
  let stopped = false
  const sampling = (async () => {
    while (!stopped) {
      await noteSessions(arena, journal, 'chaos').catch(() => undefined)
      await sleep(SAMPLE_EVERY_MS)
    }
  })()
  return async () => {
    stopped = true
    await sampling
  }
}

async function noteSessions({ database, clock }: Arena, journal: Journal, phase: string): Promise<void> {
  const { rows } = await database.pool.query<{
    sessions: number
    in_transaction: number
    oldest_ms: number
  }>(`
    select
      count(*)::integer as sessions,
      count(a.xact_start)::integer as in_transaction,
      coalesce(max(extract(epoch from clock_timestamp() - a.xact_start) * 1000), 0)::float8 as oldest_ms
    from pg_stat_activity as a
    where a.datname = current_database() and a.application_name = 'tidegate'`)
  const [row] = rows
  if (row !== undefined) journal.write('samples', { at: clock.now(), phase, ...row })
}

async function count({ pool }: SoakDatabase, from: string): Promise<number> {
  const { rows } = await pool.query<{ count: string }>(`select count(*) as count from ${from}`)
  return Number(rows[0]?.count)
}

async function countFaults({ pool }: SoakDatabase): Promise<ReadonlyMap<string, number>> {
  const { rows } = await pool.query<{ kind: string; count: string }>(`
    select f.kind, count(*) as count from soak.faults as f group by f.kind
    union all
    select 'job killed its process', count(*) from soak.kills having count(*) > 0
    order by kind`)
  return new Map(rows.map(({ kind, count }) => [kind, Number(count)]))
}
