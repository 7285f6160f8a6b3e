import { serve } from '@hono/node-server'

import { createRoot, type RootOptions } from './root.ts'

/** How a Node server runs. */
export interface ServerOptions extends Omit<RootOptions, 'runtime'> {
  /** Defaults to 8787; 0 takes a free one. */
  readonly port?: number
  /** Defaults to all addresses. */
  readonly hostname?: string
  /** Milliseconds from the end of one tick to the start of the next. Defaults to 1 000. */
  readonly tickEveryMs?: number
  /** Milliseconds that runs get to end by themselves when the server stops. Defaults to 30 000. */
  readonly graceMs?: number
}

/** A process that serves the API and ticks. */
export interface Server {
  readonly port: number
  /**
   * Stops: accepts and claims nothing more, lets runs end within the grace, then aborts and releases the rest.
   * Resolves when all is settled. A repeated call waits for the same end.
   */
  readonly stop: () => Promise<void>
}

/** Where a process stays alive: serves the API on a port and ticks on a timer, without a cron. */
export async function createServer(options: ServerOptions): Promise<Server> {
  const { port = 8787, hostname, tickEveryMs = 1_000, graceMs = 30_000 } = options
  const root = createRoot({ ...options, runtime: 'node' })
  const closing = new AbortController()
  const kept = new Set<Promise<unknown>>()
  const invocation = {
    props: {},
    passThroughOnException: () => undefined,
    waitUntil(work: Promise<unknown>) {
      kept.add(work)
      void work.finally(() => kept.delete(work)).catch(() => undefined)
    },
  }
  const aborting = new AbortController()
  const { promise: listening, resolve } = Promise.withResolvers<number>()
  const server = serve(
    {
      fetch: (request) => root.fetch(request, undefined, invocation),
      port,
      ...(hostname !== undefined && { hostname }),
    },
    (address) => resolve(address.port),
  )
  const { promise: failed, reject } = Promise.withResolvers<never>()
  server.once('error', reject)
  const boundPort = await Promise.race([listening, failed])

  const ticking = (async () => {
    while (!closing.signal.aborted) {
      await root
        .tick({ closing: closing.signal, signal: aborting.signal })
        .catch((error: unknown) => root.log.error('tick failed', { error: String(error) }))
      await pause(tickEveryMs, closing.signal)
    }
  })()

  let stopped: Promise<void> | undefined
  return {
    port: boundPort,
    stop: () => {
      stopped ??= (async () => {
        const served = new Promise<void>((closed) => server.close(() => closed()))
        closing.abort()
        const timer = setTimeout(() => aborting.abort(), graceMs)
        await ticking
        clearTimeout(timer)
        await served
        await Promise.allSettled(kept)
      })()
      return stopped
    },
  }
}

/** Waits, but no longer than until the signal. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve()
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      resolve()
    })
  })
}
