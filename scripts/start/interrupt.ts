const echoMs = 500

/**
 * Resolves at the first Ctrl-C or request to end. A second one that comes later than an echo calls `endHard`:
 * npm repeats to us what the terminal has sent to both of us.
 */
export function untilInterrupted(endHard: () => void): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  let firstAt: number | undefined
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      if (firstAt !== undefined && performance.now() - firstAt > echoMs) endHard()
      firstAt ??= performance.now()
      resolve()
    })
  }
  return promise
}
