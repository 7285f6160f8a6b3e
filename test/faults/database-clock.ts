import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'

/** Tells the database's time without asking it again. */
export interface DatabaseClock {
  /** Milliseconds since 1970, by the database. */
  readonly nowMs: () => number
  /** The same as RFC 3339. */
  readonly now: () => string
}

const SAMPLES = 5
const PATIENCE_MS = 60_000

/**
 * Sets a clock by the database's: its `clock_timestamp()` at one moment, carried on by this process's monotonic
 * clock. Off by half of the quickest round trip at most. Waits for a database that is away.
 */
export async function createDatabaseClock(url: string): Promise<DatabaseClock> {
  const giveUpAt = performance.now() + PATIENCE_MS
  for (;;) {
    try {
      const offsetMs = await measure(url)
      const nowMs = () => offsetMs + performance.now()
      return { nowMs, now: () => new Date(nowMs()).toISOString() }
    } catch (error) {
      if (performance.now() > giveUpAt) throw error
      await sleep(50)
    }
  }
}

async function measure(url: string): Promise<number> {
  const client = new Client({ connectionString: url, application_name: 'soak' })
  client.on('error', () => undefined)
  await client.connect()
  try {
    let best = { offsetMs: 0, tripMs: Infinity }
    for (let sample = 0; sample < SAMPLES; sample += 1) {
      const sentAt = performance.now()
      const { rows } = await client.query<{ ms: number }>(
        'select extract(epoch from clock_timestamp())::float8 * 1000 as ms',
      )
      const tripMs = performance.now() - sentAt
      if (tripMs < best.tripMs) best = { offsetMs: (rows[0]?.ms ?? 0) - sentAt - tripMs / 2, tripMs }
    }
    return best.offsetMs
  } finally {
    await client.end()
  }
}
