import type { Database, Param, Row } from '../../src/db/sql.ts'
import type { DatabaseClock } from './database-clock.ts'
import type { Echoes, Settlement } from './echoes.ts'
import type { Journal } from './journal.ts'

/** Which tick is observed, and what it is put through. */
export interface Observation {
  readonly tick: string
  readonly worker: string
  readonly journal: Journal
  readonly clock: DatabaseClock
  readonly echoes: Echoes
}

/** A database that writes down a tick's claims and verdicts, and remembers the tokens of what it leased. */
export interface Observed extends Database {
  readonly tokenOf: (job: string) => string | null
}

interface Request {
  readonly tick: string
  readonly settle?: readonly Settlement[]
  readonly claim?: { readonly token: string }
  readonly recover?: string
}

/** Puts an observer between a tick and its database. */
export function observed(database: Database, observation: Observation): Observed {
  const { tick, worker, journal, clock, echoes } = observation
  const tokens = new Map<string, string>()

  const noteLeased = (rows: readonly Row[]): void => {
    for (const { kind, id, data } of rows) {
      if (kind !== 'job') continue
      tokens.set(String(id), (JSON.parse(String(data)) as { token: string }).token)
      echoes.disturb(String(id))
    }
  }

  return {
    requests: () => database.requests(),
    close: () => database.close(),
    tokenOf: (job) => tokens.get(job) ?? null,
    async sql(text, params) {
      const request = requestOf(text, params)
      if (request === undefined) return database.sql(text, params)
      const settles = request.settle ?? []
      echoes.hear(settles, request.tick)
      await echoes.double(settles, request.tick)
      const token = request.claim?.token
      if (token !== undefined) journal.write('claims', { token, tick, worker })
      if (request.recover !== undefined) journal.write('recalls', { token: request.recover, at: clock.now() })
      const rows = await database.sql(text, params)
      noteVerdicts(journal, settles, rows)
      noteLeased(rows)
      return rows
    },
  }
}

/** Writes down which settles took effect, as far as the answers came through. */
export function noteVerdicts(journal: Journal, settles: readonly Settlement[], rows: readonly Row[]): void {
  for (const { kind, id, data } of rows) {
    if (kind !== 'verdict' || !isSettled(data)) continue
    const token = settles.find((settle) => settle.id === id)?.token
    if (token !== undefined) journal.write('verdicts', { job: String(id), token })
  }
}

function isSettled(data: unknown): boolean {
  return (JSON.parse(String(data)) as { verdict: string }).verdict === 'settled'
}

function requestOf(text: string, params: readonly Param[]): Request | undefined {
  const isStep = text.includes('tidegate.work(') || text.includes('tidegate.close(')
  return isStep ? (JSON.parse(String(params[0])) as Request) : undefined
}
