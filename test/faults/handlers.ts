import { defineJob, type AnyJob, type JobContext } from '../../src/registry.ts'
import { behave, behaviourOf, followUpsOf, type Script } from './behaviours.ts'
import type { DatabaseClock } from './database-clock.ts'
import type { Journal } from './journal.ts'

/** The job types and their timeouts. Only a worker that runs one tick at a time has `soak.poison`. */
const TIMEOUTS_MS = { 'soak.quick': 700, 'soak.slow': 1_500, 'soak.poison': 700 } as const

/** What a worker gives to the handlers of one tick, as their `env`. */
export interface HandlerEnv {
  readonly tick: string
  /** The token of the lease under which this tick runs a job. */
  readonly tokenOf: (job: string) => string | null
}

/** Whose handlers these are, and where they write down what they do. */
export interface HandlerOptions {
  readonly worker: string
  readonly environment: string
  readonly poison: boolean
  readonly journal: Journal
  readonly clock: DatabaseClock
}

/** Defines job types whose handlers do what their payload says and keep a journal of their own executions. */
export function defineHandlers(options: HandlerOptions): readonly AnyJob[] {
  const types = Object.entries(TIMEOUTS_MS).filter(([type]) => options.poison || type !== 'soak.poison')
  return types.map(([type, timeout]) =>
    defineJob({
      type,
      timeout,
      payload: anyScript,
      run: (script, context: JobContext<HandlerEnv>) => runNoted(script, context, options),
    }),
  )
}

async function runNoted(script: Script, context: JobContext<HandlerEnv>, options: HandlerOptions) {
  const { worker, environment, journal, clock } = options
  const { id, run, attempt, env } = context
  const behaviour = behaviourOf(script, attempt)
  journal.write('starts', {
    run,
    job: id,
    token: env.tokenOf(id),
    tick: env.tick,
    worker,
    environment,
    behaviour,
    follow_ups: followUpsOf(behaviour, run),
    at: clock.now(),
  })
  const end = (how: string): void => journal.write('ends', { run, how, at: clock.now() })
  try {
    const result = await behave(behaviour, script, context, () =>
      journal.write('kills', { run, worker, at: clock.now() }),
    )
    end('returned')
    return result
  } catch (error) {
    end('threw')
    throw error
  }
}

/** A schema that takes every script; the producer makes no others. */
const anyScript = {
  '~standard': {
    version: 1,
    vendor: 'soak',
    validate: (value: unknown) => ({ value: value as Script }),
    types: undefined as { readonly input: Script; readonly output: Script } | undefined,
  },
} as const
