/** Calls `run` every `everyMs` until the signal, but not while the last call is under way. */
export function startBeat(everyMs: number, signal: AbortSignal, run: () => Promise<unknown>): void {
  if (signal.aborted) return
  let underWay = false
  const timer = setInterval(() => {
    if (underWay) return
    underWay = true
    void run().finally(() => (underWay = false))
  }, everyMs)
  signal.addEventListener('abort', () => clearInterval(timer), { once: true })
}
