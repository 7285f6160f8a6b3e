/** Calls `run` every `everyMs`, but not while the last call is under way. Returns the function that ends it. */
export function startBeat(everyMs: number, run: () => Promise<unknown>): () => void {
  let underWay = false
  const timer = setInterval(() => {
    if (underWay) return
    underWay = true
    void run().finally(() => (underWay = false))
  }, everyMs)
  return () => clearInterval(timer)
}
