import { spawn, type ChildProcess } from 'node:child_process'
import { closeSync, openSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

import { CREWS, type Crew } from './crews.ts'
import type { DatabaseClock } from './database-clock.ts'
import type { Journal } from './journal.ts'
import type { ProducerConfig } from './producer.ts'
import { createRandom, pickOne, seedFor } from './random.ts'
import type { WorkerConfig } from './worker.ts'

/** The child processes of a round: workers and producers, each started again when it ends. */
export interface Fleet {
  /** SIGKILL. `aim` in [0, 1) says which. False when there is none. */
  readonly killWorker: (aim: number) => boolean
  /** SIGTERM: it releases what it can and ends. */
  readonly endWorker: (aim: number) => boolean
  /** SIGSTOP, and SIGCONT after `ms`. */
  readonly stopWorker: (aim: number, ms: number) => boolean
  readonly killProducer: (aim: number) => boolean
  /** Lets producers find out what became of their keys, and ends them. */
  readonly endProducers: () => Promise<void>
  /** Wakes stopped workers. */
  readonly wake: () => void
  /** Lets workers end their ticks, and ends them. */
  readonly endWorkers: () => Promise<void>
}

/** What the processes are told. */
export interface FleetOptions {
  readonly folder: string
  readonly round: number
  readonly environment: string
  /** Where the processes of a crew connect to. */
  readonly urlOf: (crew: Crew) => string
  /** Past the proxies. */
  readonly directUrl: string
  readonly jobsPerMinute: number
  readonly seed: number
  readonly clock: DatabaseClock
  readonly journal: Journal
}

const HOUR_MS = 3_600_000
const FOREIGN_ENVIRONMENT = 'elsewhere'
const PATIENCE_MS = 15_000
/** How much of what a process wrote to stderr is kept, in characters. */
const LAST_WORDS = 500

/** One crew and the process that it is at the moment. */
interface Member {
  readonly crew: Crew
  readonly name: string
  readonly child: ChildProcess
  readonly exited: Promise<void>
  stoppedAt: string | undefined
}

/** Starts all processes of a round. */
export function startFleet(options: FleetOptions): Fleet {
  const members = new Map<Crew, Member>()
  const ended = new Set<Crew['role']>()
  const generations = new Map<Crew, number>()

  const start = (crew: Crew): void => {
    const generation = (generations.get(crew) ?? 0) + 1
    generations.set(crew, generation)
    const name = `${crew.name}.${options.round}.${generation}`
    const child = launch(options, crew, name)
    const { promise: exited, resolve } = Promise.withResolvers<void>()
    const member: Member = { crew, name, child, exited, stoppedAt: undefined }
    members.set(crew, member)
    child.once('exit', (code, signal) => {
      noteStop(member)
      options.journal.write('exits', {
        worker: name,
        how: signal === null ? `code ${code}` : `signal ${signal}`,
        last_words: takeText(errorFile(options, name)).slice(-LAST_WORDS),
      })
      resolve()
      if (!ended.has(crew.role)) setTimeout(() => ended.has(crew.role) || start(crew), 100)
    })
  }

  const noteStop = (member: Member): void => {
    if (member.stoppedAt === undefined) return
    const row = { worker: member.name, began_at: member.stoppedAt, ended_at: options.clock.now() }
    options.journal.write('stops', row)
    member.stoppedAt = undefined
  }

  const wake = (member: Member): void => {
    if (member.stoppedAt === undefined) return
    member.child.kill('SIGCONT')
    noteStop(member)
  }

  const running = (role: Crew['role']): Member[] =>
    [...members.values()].filter(
      ({ crew, child, stoppedAt }) =>
        crew.role === role && child.exitCode === null && child.signalCode === null && stoppedAt === undefined,
    )

  const signal = (role: Crew['role'], aim: number, name: NodeJS.Signals): Member | undefined => {
    const member = pickOne(() => aim, running(role))
    member?.child.kill(name)
    return member
  }

  const end = async (...roles: readonly Crew['role'][]): Promise<void> => {
    roles.forEach((role) => ended.add(role))
    const leaving = [...members.values()].filter(({ crew }) => roles.includes(crew.role))
    for (const { child } of leaving) child.kill('SIGTERM')
    const impatience = setTimeout(() => leaving.forEach(({ child }) => child.kill('SIGKILL')), PATIENCE_MS)
    await Promise.all(leaving.map(({ exited }) => exited))
    clearTimeout(impatience)
  }

  // A stopped child notices nothing.
  const killAll = (): void => members.forEach(({ child }) => child.kill('SIGKILL'))
  process.once('exit', killAll)
  CREWS.forEach(start)
  return {
    killWorker: (aim) => signal('worker', aim, 'SIGKILL') !== undefined,
    endWorker: (aim) => signal('worker', aim, 'SIGTERM') !== undefined,
    killProducer: (aim) => signal('producer', aim, 'SIGKILL') !== undefined,
    stopWorker(aim, ms) {
      const member = signal('worker', aim, 'SIGSTOP')
      if (member === undefined) return false
      member.stoppedAt = options.clock.now()
      setTimeout(() => wake(member), ms)
      return true
    },
    wake: () => members.forEach(wake),
    endProducers: () => end('producer'),
    async endWorkers() {
      await end('worker', 'foreign')
      process.off('exit', killAll)
    },
  }
}

function launch(options: FleetOptions, crew: Crew, name: string): ChildProcess {
  const { folder } = options
  const own: Own = {
    name,
    url: options.urlOf(crew),
    journalFile: join(folder, `${name}.jsonl`),
    seed: seedFor(options.seed, name),
  }
  const [file, config] =
    crew.role === 'producer'
      ? [import.meta.resolve('./producer.ts'), producerConfig(options, own)]
      : [import.meta.resolve('./worker.ts'), workerConfig(options, crew, own)]
  const errors = openSync(errorFile(options, name), 'a')
  const child = spawn(process.execPath, [fileURLToPath(file), JSON.stringify(config)], {
    // The channel is how a child notices that the harness is gone.
    stdio: ['ignore', 'ignore', errors, 'ipc'],
    env: { ...process.env, NODE_COMPILE_CACHE: join(folder, 'compiled') },
  })
  closeSync(errors)
  return child
}

function errorFile({ folder }: FleetOptions, name: string): string {
  return join(folder, `${name}.stderr`)
}

function takeText(file: string): string {
  const text = readFileSync(file, 'utf8')
  rmSync(file)
  return text
}

/** What is different for each process. */
interface Own {
  readonly name: string
  readonly url: string
  readonly journalFile: string
  readonly seed: number
}

function producerConfig({ jobsPerMinute }: FleetOptions, own: Own): ProducerConfig {
  const producers = CREWS.filter(({ role }) => role === 'producer').length
  return { ...own, jobsPerMinute: jobsPerMinute / producers }
}

function workerConfig(options: FleetOptions, crew: Crew, own: Own): WorkerConfig {
  const { environment, directUrl, clock, journal } = options
  const isForeign = crew.role === 'foreign'
  const clockMs = pickOne(createRandom(own.seed), [0, HOUR_MS, -HOUR_MS]) ?? 0
  if (clockMs !== 0) journal.write('faults', { kind: 'clock an hour wrong', at: clock.now() })
  return {
    ...own,
    directUrl,
    environment: isForeign ? FOREIGN_ENVIRONMENT : environment,
    loops: crew.loops,
    // There is nothing to do for these but to ask again.
    pace: isForeign ? 5 : 1,
    poison: crew.poison,
    clockMs,
  }
}
