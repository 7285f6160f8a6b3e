import { setTimeout as sleep } from 'node:timers/promises'

import { openPg } from '../../src/db/pg.ts'
import type { Database } from '../../src/db/sql.ts'
import { createLogger } from '../../src/log.ts'
import { createRegistry, type Registry } from '../../src/registry.ts'
import { tick } from '../../src/tick.ts'
import { TICK_SETTINGS, type TickOptions, type TickSettings } from '../../src/tick-options.ts'
import { createEchoes, type Echoes } from './echoes.ts'
import { createDatabaseClock, type DatabaseClock } from './database-clock.ts'
import { defineHandlers, type HandlerEnv } from './handlers.ts'
import { openJournal, type Journal } from './journal.ts'
import { measureLag, type Lag } from './lag.ts'
import { noteVerdicts, observed, type Observed } from './observe.ts'
import { between, createRandom, type Random } from './random.ts'
import { LEASE_MARGIN_MS, RETENTION, WINDOW_MS } from './windows.ts'

/** What a worker process is told, as JSON in its first argument. */
export interface WorkerConfig {
  /** Names this one process. */
  readonly name: string
  readonly journalFile: string
  /** Through the proxy. */
  readonly url: string
  /** Past it, only to set the clock by. */
  readonly directUrl: string
  readonly environment: string
  /** Ticks at a time. */
  readonly loops: number
  /** Times the usual pause between ticks. */
  readonly pace: number
  readonly poison: boolean
  /** How far its wall clock is off. */
  readonly clockMs: number
  readonly seed: number
}

const SETTINGS: TickSettings = {
  ...TICK_SETTINGS,
  concurrency: 5,
  batch: 5,
  reserveMs: 500,
  leaseMarginMs: LEASE_MARGIN_MS,
  backoff: { baseMs: 1_000, factor: 1.5, maxMs: 3_000 },
  retention: RETENTION,
  pushLeaseMs: 1_000,
}
const DRIVER = { timeoutMs: 1_000, connectTimeoutMs: 500 } as const

/** So long after its deadline a tick is given up as one that hangs. */
const HANGS_MS = 2_000

/** All that the ticks of this process share. */
interface Process {
  readonly config: WorkerConfig
  readonly registry: Registry
  readonly journal: Journal
  readonly clock: DatabaseClock
  readonly random: Random
  readonly lag: Lag
  readonly echoes: Echoes
  readonly ending: AbortSignal
}

const config = JSON.parse(process.argv[2] ?? '') as WorkerConfig
setWallClockWrong(config.clockMs)
const ending = new AbortController()
process.on('SIGTERM', () => ending.abort())
process.on('disconnect', () => process.exit(1))
// A root on Node has this too: a handler's stray rejection must not end the neighbours.
process.on('unhandledRejection', () => undefined)

await work()
// Handlers that never return must not keep the process.
process.exit(0)

async function work(): Promise<void> {
  const journal = openJournal(config.journalFile)
  const clock = await createDatabaseClock(config.directUrl)
  const { name: worker, environment, poison } = config
  const jobs = defineHandlers({ worker, environment, poison, journal, clock })
  const registry = createRegistry(jobs, {
    timeoutMs: 1_000,
    maxAttempts: 3,
    backoff: SETTINGS.backoff,
    windowMs: WINDOW_MS,
    reserveMs: SETTINGS.reserveMs,
  })
  const random = createRandom(config.seed)
  const shared = {
    config,
    registry,
    journal,
    clock,
    random,
    echoes: createEchoes(open, random, (settles, rows) => noteVerdicts(journal, settles, rows)),
    lag: measureLag(),
    ending: ending.signal,
  }
  await Promise.all(Array.from({ length: config.loops }, () => loop(shared)))
}

async function loop(shared: Process): Promise<void> {
  while (!shared.ending.aborted) {
    await oneTick(shared)
    const pauseMs = between(shared.random, 20, 200) * shared.config.pace
    await sleep(pauseMs)
  }
}

function open(): Database {
  return openPg({ url: config.url, ...DRIVER })
}

async function oneTick(shared: Process): Promise<void> {
  const { config, registry, journal, clock, random, lag, echoes, ending } = shared
  const { name: worker, environment } = config
  const id = crypto.randomUUID()
  let observation: Observed | undefined
  const openDatabase = (): Database => {
    // The tick opens its own connection first, then the handlers'.
    if (observation !== undefined) return open()
    observation = observed(open(), { tick: id, worker, journal, clock, echoes })
    return observation
  }
  const env: HandlerEnv = { tick: id, tokenOf: (job) => observation?.tokenOf(job) ?? null }
  const options = tickOptions(random, ending)
  const startedAt = clock.now()
  const begun = performance.now()
  const ended = tick(
    {
      registry,
      openDatabase,
      env,
      environment,
      settings: SETTINGS,
      log: createLogger('silent'),
      push: push(random),
    },
    options,
  )
  const { stopped, error = null } = await Promise.race([ended, hangs()])
  const tookMs = performance.now() - begun
  journal.write('ticks', {
    tick: id,
    worker,
    environment,
    started_at: startedAt,
    ended_at: clock.now(),
    late_ms: tookMs - WINDOW_MS,
    lag_ms: lag.sinceMs(begun),
    // A kick that says so may have left everything to another one.
    stopped: options.kick !== undefined && stopped === 'empty' ? 'kick' : stopped,
    error,
  })
}

/** Ticks of every sort: some look for more until their window is used up, some end early, some only let runs end. */
function tickOptions(random: Random, ending: AbortSignal): TickOptions {
  return {
    windowMs: WINDOW_MS,
    ...(random() < 0.5 ? { signal: ending } : { closing: ending }),
    ...(random() < 0.1 ? { maxJobs: 7 } : {}),
    ...(random() < 0.2 ? { lingerMs: 300 } : {}),
    ...(random() < 0.1 ? { kick: { token: crypto.randomUUID(), onEnd: () => undefined } } : {}),
  }
}

function push(random: Random): () => Promise<string | null> {
  return async () => (random() < 0.2 ? 'the gateway answered 500' : null)
}

function hangs(): Promise<{ readonly stopped: 'hangs'; readonly error?: string }> {
  return sleep(WINDOW_MS + HANGS_MS, { stopped: 'hangs' })
}

function setWallClockWrong(byMs: number): void {
  const RealDate = Date
  globalThis.Date = class extends RealDate {
    constructor(...parts: readonly unknown[]) {
      super(...((parts.length === 0 ? [RealDate.now() + byMs] : parts) as [number]))
    }
    static override now(): number {
      return RealDate.now() + byMs
    }
  } as DateConstructor
}
