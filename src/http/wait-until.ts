import type { Context } from 'hono'

/** Keeps an invocation alive until the work has ended, though its answer is out. */
export type WaitUntil = (work: Promise<unknown>) => void

/** The runtime's `waitUntil`; undefined where invocations do not end, as in a Node server. */
export function waitUntilOf(c: Context): WaitUntil | undefined {
  try {
    const context = c.executionCtx
    return (work) => context.waitUntil(work)
  } catch {
    // Hono throws where the runtime has handed it no context.
    return undefined
  }
}
