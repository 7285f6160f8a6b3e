/** A span of time: milliseconds, or a number with its unit, such as `'10s'`. */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h'}`

const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 } as const

/** Whole milliseconds of a duration. Throws when it is not a finite span of at least one. */
export function durationMs(duration: Duration): number {
  // Rounded: 1.005 × 1000 is not 1005, and the database keeps integers.
  const ms = Math.round(typeof duration === 'number' ? duration : parse(duration))
  if (!Number.isFinite(ms) || ms < 1) {
    const got = typeof duration === 'number' ? duration : JSON.stringify(duration)
    throw new Error(`expected a duration such as 1500 (milliseconds) or '10s', got ${got}`)
  }
  return ms
}

function parse(text: string): number {
  const [, amount, unit] = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text) ?? []
  return unit === undefined ? Number.NaN : Number(amount) * UNITS[unit as keyof typeof UNITS]
}
