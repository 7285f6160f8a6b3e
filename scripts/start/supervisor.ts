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
  /** Looks at the first one before its cron handler is fired. Rejects when it is of no use. */
  readonly expectReady: (url: string) => Promise<void>
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
}

/**
 * Serves a Worker and fires its cron handler. A workerd that ends, or that leaves `GET /healthz` without a 200
 * for 5 s (a handler that spins blocks it), is killed and followed by the next after 100 ms, and if it fails again
 * soon, after growing delays of 5 s at most. Throws when the first cannot start, does not answer or is not ready.
 */
export async function superviseWorkerd(options: SupervisorOptions): Promise<Supervisor> {
  const stopping = new AbortController()
  let current = await options.launch()
  await expectFit(current, options.expectReady).catch((error: unknown) => {
    current.kill()
    throw error
  })
  const ended = keepServing(current, options, stopping.signal, (next) => (current = next))
  return {
    url: current.url,
    stop: async () => {
      stopping.abort()
      await current.stop()
      await ended
    },
  }
}

async function expectFit(workerd: Workerd, expectReady: (url: string) => Promise<void>): Promise<void> {
  const problem = await probe(workerd)
  if (problem !== undefined) throw new Error(`the worker ${problem}`)
  await expectReady(workerd.url)
}

async function keepServing(
  first: Workerd,
  { launch, tickEveryMs, print }: SupervisorOptions,
  stopping: AbortSignal,
  replace: (next: Workerd) => void,
): Promise<void> {
  const serveNext = async (): Promise<string> => {
    const next = await launch()
    replace(next)
    if (stopping.aborted) await next.stop()
    return serve(next, tickEveryMs, stopping)
  }
  let end = await serve(first, tickEveryMs, stopping)
  for (let delayMs = firstDelayMs; !stopping.aborted; delayMs = Math.min(delayMs * 2, longestDelayMs)) {
    print(`workerd ${end}: starting it again`)
    await sleep(delayMs, undefined, { signal: stopping }).catch(() => undefined)
    if (stopping.aborted) return
    const since = performance.now()
    end = await serveNext().catch((error: unknown) => `could not be started: ${String(error)}`)
    if (performance.now() - since > steadyAfterMs) delayMs = firstDelayMs / 2
  }
}

// Returns how it ended, once it has.
async function serve(workerd: Workerd, tickEveryMs: number, stopping: AbortSignal): Promise<string> {
  const over = new AbortController()
  const signal = AbortSignal.any([stopping, over.signal])
  startBeat(tickEveryMs, signal, () => workerd.scheduled())
  const end = await Promise.race([untilExit(workerd), untilSilent(workerd, signal)])
  over.abort()
  workerd.kill()
  await workerd.exited
  return end
}

async function untilExit(workerd: Workerd): Promise<string> {
  return `ended with ${await workerd.exited}`
}

async function untilSilent(workerd: Workerd, signal: AbortSignal): Promise<string> {
  while (!signal.aborted) {
    const problem = await probe(workerd)
    if (problem !== undefined && !signal.aborted) return problem
    await sleep(probeEveryMs, undefined, { signal }).catch(() => undefined)
  }
  return untilExit(workerd)
}

async function probe({ url }: Workerd): Promise<string | undefined> {
  try {
    const response = await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(probeTimeoutMs) })
    await response.body?.cancel()
    return response.status === 200 ? undefined : `answered GET /healthz with ${response.status}`
  } catch (error) {
    const isTimeout = error instanceof Error && error.name === 'TimeoutError'
    return isTimeout ? `did not answer GET /healthz for ${probeTimeoutMs} ms` : 'broke off GET /healthz'
  }
}
