/** How long this process was kept from running: by its own code, by the machine, or by a SIGSTOP. */
export interface Lag {
  /** The longest time without a turn of the event loop since this moment of `performance.now()`. */
  readonly sinceMs: (moment: number) => number
}

const EVERY_MS = 20
const KEPT_MS = 30_000

/** Begins to measure. */
export function measureLag(): Lag {
  let gaps: { readonly at: number; readonly ms: number }[] = []
  let last = performance.now()
  setInterval(() => {
    const now = performance.now()
    gaps.push({ at: now, ms: now - last - EVERY_MS })
    gaps =
      gaps[0] !== undefined && now - gaps[0].at > 2 * KEPT_MS
        ? gaps.filter(({ at }) => now - at < KEPT_MS)
        : gaps
    last = now
  }, EVERY_MS)
  return {
    sinceMs(moment) {
      const underWay = performance.now() - last - EVERY_MS
      return gaps
        .filter(({ at }) => at >= moment)
        .reduce((most, { ms }) => Math.max(most, ms), Math.max(0, underWay))
    },
  }
}
