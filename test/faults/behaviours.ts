import { setTimeout as sleep } from 'node:timers/promises'

import { PermanentError, snooze } from '../../src/errors.ts'
import type { HandlerResult, JobContext } from '../../src/registry.ts'

/**
 * What a handler does, as its payload says:
 *
 * - `ok`, `slow`, `odd`, `big`: succeed at once, after a while, with a result that is hard to store, with too much of it.
 * - `fail`, `permanent`, `nul`: throw; for good; with a text that Postgres cannot hold.
 * - `unstorable`: succeed or throw, by the run's id, with a text that this database refuses.
 * - `hang`, `overtime`, `deaf`: wait for the signal and then throw; return long after it; never return.
 * - `snooze`: ask to run later, or succeed, by the run's id.
 * - `follow`: enqueue follow-ups, then succeed or, by the run's id, fail.
 * - `stray`: leave a rejection behind that nobody handles. `write`: write to the database.
 * - `kill`, `exit`: end their own process.
 */
export const BEHAVIOURS = [
  'ok',
  'slow',
  'odd',
  'big',
  'fail',
  'permanent',
  'nul',
  'unstorable',
  'hang',
  'overtime',
  'deaf',
  'snooze',
  'follow',
  'stray',
  'write',
  'kill',
  'exit',
] as const

/** One of {@link BEHAVIOURS}. */
export type Behaviour = (typeof BEHAVIOURS)[number]

/** A job's payload: what each attempt does, the last entry for all further ones, and how long that takes. */
export interface Script {
  readonly script: readonly Behaviour[]
  readonly ms: number
  /** Fills the payload. */
  readonly ballast?: string
}

/** The exit code of a process that a job has ended. */
const EXIT_OF_A_JOB = 3

/** What this attempt does. */
export function behaviourOf({ script }: Script, attempt: number): Behaviour {
  return script[Math.min(attempt, script.length) - 1] ?? 'ok'
}

/** How many follow-ups a run asks for, before it succeeds or fails. */
export function followUpsOf(behaviour: Behaviour, run: string): number {
  return behaviour === 'follow' ? 1 + (digitOf(run) % 3) : 0
}

/** Does it. `dying` is called right before the process ends. */
export async function behave(
  behaviour: Behaviour,
  { ms }: Script,
  context: JobContext,
  dying: () => void,
): Promise<HandlerResult> {
  const { run, signal } = context
  switch (behaviour) {
    case 'ok':
      return { run }
    case 'slow':
      await unlessAborted(sleep(ms), signal)
      return { run }
    case 'odd':
      return { run, 'key\0': 'a\0b\uD800c' }
    case 'big':
      return { run, ballast: 'x'.repeat(100_000) }
    case 'fail':
      throw new TypeError('this attempt fails')
    case 'permanent':
      throw new PermanentError('no attempt can help')
    case 'nul':
      throw new Error('a\0b\uD800c')
    case 'unstorable':
      if (digitOf(run) % 2 === 0) return { run, unstorable: true }
      throw new Error('unstorable')
    case 'hang':
      await unlessAborted(never, signal)
      return { run }
    case 'overtime':
      await sleep(1_500 + ms * 8)
      return { run }
    case 'deaf':
      return never
    case 'snooze':
      return digitOf(run) % 2 === 0 ? snooze({ seconds: 1 }) : { run }
    case 'follow':
      return follow(context)
    case 'stray':
      void Promise.reject(new Error('nobody handles this'))
      return { run }
    case 'write':
      await context.sql('insert into soak.effects (job, run) values ($1::uuid, $2::uuid)', [context.id, run])
      return { run }
    case 'kill':
      dying()
      process.kill(process.pid, 'SIGKILL')
      return never
    case 'exit':
      dying()
      return process.exit(EXIT_OF_A_JOB)
  }
}

function follow({ run, enqueue }: JobContext): HandlerResult {
  for (let n = 0; n < followUpsOf('follow', run); n += 1) enqueue('soak.quick', { script: ['ok'], ms: 0 })
  if (digitOf(run) % 5 === 0) throw new Error('after the follow-ups')
  return { run }
}

/** A run's ids are random, so a digit of them is a throw of the dice that the checker can repeat. */
function digitOf(run: string): number {
  return Number.parseInt(run.slice(0, 6), 16)
}

const never = new Promise<never>(() => undefined)

function unlessAborted(event: Promise<void>, signal: AbortSignal): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>()
  const abort = () => reject(new Error('the signal has aborted'))
  if (signal.aborted) abort()
  else signal.addEventListener('abort', abort, { once: true })
  return Promise.race([event, promise])
}
