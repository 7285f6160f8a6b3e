import { spawn, type ChildProcess } from 'node:child_process'
import { openSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

import type { DatabaseClock } from './database-clock.ts'
import type { Journal } from './journal.ts'
import type { ProducerConfig } from './producer.ts'
import { between, pickOne, type Random } from './random.ts'
import type { WorkerConfig } from './worker.ts'

/** The child processes of a round: workers and producers, each started again when it ends. */
export interface Fleet {
  /** SIGKILL. `aim` in [0, 1) says which. False when there is none. */
  readonly killWorker: (aim: number) => boolean
  /** SIGTERM: it releases what it can and ends. */
  readonly endWorker: (aim: number) => boolean
  /** SIGSTOP, and SIGCONT after `ms`. */
  readonly stopWorker: (aim: number, ms: number) => boolean
  readonly killProducer: () => boolean
  /** Lets producers find out what became of their keys, and ends them. */
  readonly endProducers: () => Promise<void>
  /** Wakes stopped workers. */
  readonly wake: () => void
  /** Lets workers end their ticks, and ends them. */
  readonly endWorkers: () => Promise<void>
}

/** Where the processes connect to and what they write to. */
export interface FleetOptions {
  readonly folder: string
  readonly round: number
  readonly environment: string
  readonly workerUrl: string
  readonly producerUrl: string
  readonly foreignUrl: string
  readonly directUrl: string
  readonly jobsPerMinute: number
  readonly random: Random
  readonly clock: DatabaseClock
  readonly journal: Journal
}

interface Crew {
  readonly name: string
  readonly role: 'worker' | 'foreign' | 'producer'
  readonly loops: number
  readonly poison: boolean
}

// A job that kills its process does so with everything in it, so only a worker of one tick at a time runs these:
// the guarantee about neighbours is about a tick.
const CREWS: readonly Crew[] = [
  { name: 'pair-1', role: 'worker', loops: 2, poison: false },
  { name: 'pair-2', role: 'worker', loops: 2, poison: false },
  { name: 'solo-1', role: 'worker', loops: 1, poison: true },
  { name: 'solo-2', role: 'worker', loops: 1, poison: true },
  { name: 'foreign-1', role: 'foreign', loops: 1, poison: false },
  { name: 'foreign-2', role: 'foreign', loops: 1, poison: true },
  { name: 'producer', role: 'producer', loops: 1, poison: false },
]

const HOUR_MS = 3_600_000
const FOREIGN_ENVIRONMENT = 'elsewhere'
const PATIENCE_MS = 15_000

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
  let processes = 0

  const start = (crew: Crew): void => {
    processes += 1
    const name = `${crew.name}.${options.round}.${processes}`
    const child = launch(options, crew, name)
    const { promise: exited, resolve } = Promise.withResolvers<void>()
    const member: Member = { crew, name, child, exited, stoppedAt: undefined }
    members.set(crew, member)
    child.once('exit', (code, signal) => {
      noteStop(member)
      options.journal.write('exits', {
        worker: name,
        how: signal === null ? `code ${code}` : `signal ${signal}`,
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

  CREWS.forEach(start)
  return {
    killWorker: (aim) => signal('worker', aim, 'SIGKILL') !== undefined,
    endWorker: (aim) => signal('worker', aim, 'SIGTERM') !== undefined,
    killProducer: () => signal('producer', 0, 'SIGKILL') !== undefined,
    stopWorker(aim, ms) {
      const member = signal('worker', aim, 'SIGSTOP')
      if (member === undefined) return false
      member.stoppedAt = options.clock.now()
      setTimeout(() => wake(member), ms)
      return true
    },
    wake: () => members.forEach(wake),
    endProducers: () => end('producer'),
    endWorkers: () => end('worker', 'foreign'),
  }
}

function launch(options: FleetOptions, crew: Crew, name: string): ChildProcess {
  const { folder } = options
  const journalFile = join(folder, `${name}.jsonl`)
  const seed = between(options.random, 0, 2 ** 31)
  const [file, config] =
    crew.role === 'producer'
      ? [import.meta.resolve('./producer.ts'), producerConfig(options, name, journalFile, seed)]
      : [import.meta.resolve('./worker.ts'), workerConfig(options, crew, name, journalFile, seed)]
  const child = spawn(process.execPath, [fileURLToPath(file), JSON.stringify(config)], {
    // The channel is how a child notices that the harness is gone.
    stdio: ['ignore', 'ignore', openSync(join(folder, 'stderr.log'), 'a'), 'ipc'],
    env: { ...process.env, NODE_COMPILE_CACHE: join(folder, 'compiled') },
  })
  const killAtExit = (): boolean => child.kill('SIGKILL')
  process.once('exit', killAtExit)
  child.once('exit', () => process.off('exit', killAtExit))
  return child
}

function producerConfig(
  options: FleetOptions,
  name: string,
  journalFile: string,
  seed: number,
): ProducerConfig {
  return { name, journalFile, url: options.producerUrl, jobsPerMinute: options.jobsPerMinute, seed }
}

function workerConfig(
  { environment, workerUrl, foreignUrl, directUrl, random, clock, journal }: FleetOptions,
  { role, loops, poison }: Crew,
  name: string,
  journalFile: string,
  seed: number,
): WorkerConfig {
  const clockMs = pickOne(random, [0, HOUR_MS, -HOUR_MS]) ?? 0
  if (clockMs !== 0) journal.write('faults', { kind: 'clock an hour wrong', at: clock.now() })
  return {
    worker: name,
    journalFile,
    url: role === 'foreign' ? foreignUrl : workerUrl,
    directUrl,
    environment: role === 'foreign' ? FOREIGN_ENVIRONMENT : environment,
    loops,
    // There is nothing to do for these but to ask again.
    pace: role === 'foreign' ? 5 : 1,
    poison,
    clockMs,
    seed,
  }
}
