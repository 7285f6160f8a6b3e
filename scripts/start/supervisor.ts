import { setTimeout as sleep } from 'node:timers/promises'
import type { Workerd } from '../workerd.ts'
import { startBeat } from './beat.ts'

const probeEveryMs = 1_000
const probeTimeoutMs = 5_000
const firstDelayMs = 100
const longestDelayMs = 5_000
const steadyAfterMs = 10_000

/** What to keep alive. */
export interface SupervisorOptions {
  /** Starts a workerd, always on the same address. */
  readonly launch: () => Promise<Workerd>
  /** How often its cron handler is fired; a beat is left out while the last one is under way. */
  readonly tickEveryMs: number
  /** Takes a line about each restart. */
  readonly print: (line: string) => void
}

/** A Worker that is served until `stop`, by one workerd after another. */
export interface Supervisor {
  readonly url: string
  /** Lets requests under way end, for 2 s at most. */
  stop(): Promise<void>
  kill(): void
}

/**
 * Serves a Worker and fires its cron handler. A workerd that ends, or that leaves `GET /healthz` without a 200
 * for 5 s (a handler that spins blocks it), is killed and followed by the next: at once, and if it fails again
 * soon after growing delays of 5 s at most. Throws when the first cannot start or does not answer.
 */
export async function superviseWorkerd(options: SupervisorOptions): Promise<Supervisor> {
  const stopping = new AbortController()
  let current = await options.launch()
  const problem = await probe(current)
  if (problem !== undefined) {
    current.kill()
    throw new Error(`the worker ${problem}`)
  }
  const ended = keepServing(current, options, stopping.signal, (next) => (current = next))
  return {
    url: current.url,
    stop: async () => {
      stopping.abort()
      await current.stop()
      await ended
    },
    kill: () => {
      stopping.abort()
      current.kill()
    },
  }
}
