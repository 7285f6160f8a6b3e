import type { Database, Param, Row } from '../../src/db/sql.ts'
import type { DatabaseClock } from './database-clock.ts'
import type { Journal } from './journal.ts'
import type { Random } from './random.ts'

/** What one tick says to the database, as seen from outside of it. */
export interface Observation {
  readonly tick: string
  readonly worker: string
  readonly journal: Journal
  readonly clock: DatabaseClock
  readonly random: Random
  /** Another connection, for settles that arrive once more. */
  readonly open: () => Database
}

/** A database that writes down a tick's claims and verdicts, and remembers the tokens of what it leased. */
export interface Observed extends Database {
  readonly tokenOf: (job: string) => string | null
}

interface Settlement {
  readonly id: string
  readonly token: string
  readonly crashed?: boolean
}

interface Request {
  readonly tick: string
  readonly settle?: readonly Settlement[]
  readonly claim?: { readonly token: string }
}

/**
 * Settles can arrive more than once: drivers and gateways over HTTP send a statement again, at once or much
 * later. So often a call with several settles is delivered twice at the same moment, in opposite orders …
 */
const TWICE = 0.2
const CONNECT_MS = 100

/** … and so often a call's settles come again, when their jobs may have another lease by now. */
const ECHOED = 0.15
const ECHOES_OF_A_RECOVERY = 3
const LATEST_ECHO_MS = 6_000

/** Puts an observer between a tick and its database. */
export function observed(database: Database, observation: Observation): Observed {
  const { tick, worker, journal, clock, random, open } = observation
  const tokens = new Map<string, string>()

  const note = (settles: readonly Settlement[], rows: readonly Row[]): void => {
    for (const { kind, id, data } of rows) {
      const job = String(id)
      if (kind === 'job') tokens.set(job, (JSON.parse(String(data)) as { token: string }).token)
      const token = kind === 'verdict' ? settles.find((settle) => settle.id === job)?.token : undefined
      if (token !== undefined && isSettled(data)) journal.write('verdicts', { job, token, tick })
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
      const again = async (another: Database): Promise<void> =>
        note(settles, await settleReversed(another, settles, request.tick))
      delaysOfEchoes(settles, random).forEach((ms) => setTimeout(() => void again(open()), ms))
      if (settles.length > 1 && random() < TWICE) void again(await connected(open()))
      const token = request.claim?.token
      if (token !== undefined) journal.write('claims', { token, tick, worker, at: clock.now() })
      const rows = await database.sql(text, params)
      note(settles, rows)
      return rows
    },
  }
}

function delaysOfEchoes(settles: readonly Settlement[], random: Random): readonly number[] {
  const isRecovery = settles.some(({ crashed }) => crashed)
  const echoes = isRecovery ? ECHOES_OF_A_RECOVERY : settles.length > 0 && random() < ECHOED ? 1 : 0
  return Array.from({ length: echoes }, () => random() * LATEST_ECHO_MS)
}

function isSettled(data: unknown): boolean {
  return (JSON.parse(String(data)) as { verdict: string }).verdict === 'settled'
}

function requestOf(text: string, params: readonly Param[]): Request | undefined {
  const isStep = text.includes('tidegate.work(') || text.includes('tidegate.close(')
  return isStep ? (JSON.parse(String(params[0])) as Request) : undefined
}

/** Connects ahead of the call that is to be met, so that both arrive together. */
async function connected(database: Database): Promise<Database> {
  const ready = database.sql('select clock_timestamp()', []).catch(() => undefined)
  await Promise.race([ready, new Promise((resolve) => setTimeout(resolve, CONNECT_MS))])
  return database
}

/** Delivers settles alone and in the opposite order: one lock order must stand that without a deadlock. */
async function settleReversed(
  another: Database,
  settles: readonly Settlement[],
  tick: string,
): Promise<readonly Row[]> {
  try {
    return await another.sql(SETTLE, [JSON.stringify(settles.toReversed()), tick])
  } catch {
    return []
  } finally {
    await another.close()
  }
}

const SETTLE = `
  select 'verdict' as kind, s.id::text as id, json_build_object('verdict', s.verdict)::text as data
  from tidegate.settle($1::jsonb, $2::uuid) as s
  where clock_timestamp() is not null`
