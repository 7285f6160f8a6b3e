import { setTimeout as sleep } from 'node:timers/promises'

import type { Database, Row } from '../../src/db/sql.ts'
import type { Random } from './random.ts'

/** A lease to end, as a call of a tick carries it. */
export interface Settlement {
  readonly id: string
  readonly token: string
  readonly crashed?: boolean
}

/** Settles that arrive more than once: drivers and gateways over HTTP can send a statement again. */
export interface Echoes {
  /** Takes the settles of a call that is about to be sent; some will come again within seconds. */
  readonly hear: (settles: readonly Settlement[], tick: string) => void
  /** Sends settles a second time, in the opposite order, so that both calls arrive together. */
  readonly double: (settles: readonly Settlement[], tick: string) => Promise<void>
  /** Repeats an earlier settle of this job, which has another lease now. */
  readonly disturb: (job: string) => void
}

/** So often a call with several settles is delivered twice, and a call's settles come again later. */
const DOUBLED = 0.35
const ECHOED = 0.15
const ECHOES_OF_A_RECOVERY = 2
const LATEST_MS = 6_000

const CONNECT_MS = 100
const REMEMBERED = 1_000

/** Creates the echoes of one process. `note` is told what came of them. */
export function createEchoes(
  open: () => Database,
  random: Random,
  note: (settles: readonly Settlement[], rows: readonly Row[]) => void,
): Echoes {
  const last = new Map<string, { readonly settle: Settlement; readonly tick: string }>()
  // Connected all the time, for a job's next lease may take a few milliseconds only.
  const disturber = open()

  const send = async (database: Database, settles: readonly Settlement[], tick: string): Promise<void> => {
    const rows = await database.sql(SETTLE, [JSON.stringify(settles), tick]).catch(() => [])
    note(settles, rows)
  }
  const sendAlone = async (
    settles: readonly Settlement[],
    tick: string,
    database = open(),
  ): Promise<void> => {
    await send(database, settles.toReversed(), tick)
    await database.close()
  }

  return {
    hear(settles, tick) {
      for (const settle of settles) last.set(settle.id, { settle, tick })
      for (const id of last.keys()) if (last.size > REMEMBERED) last.delete(id)
      const isRecovery = settles.some(({ crashed }) => crashed)
      const echoes = isRecovery ? ECHOES_OF_A_RECOVERY : settles.length > 0 && random() < ECHOED ? 1 : 0
      for (let echo = 0; echo < echoes; echo += 1)
        setTimeout(() => void sendAlone(settles, tick), random() * LATEST_MS)
    },
    async double(settles, tick) {
      if (settles.length < 2 || random() >= DOUBLED) return
      const another = open()
      const ready = another.sql('select clock_timestamp()', []).catch(() => undefined)
      await Promise.race([ready, sleep(CONNECT_MS)])
      void sendAlone(settles, tick, another)
    },
    disturb(job) {
      const stale = last.get(job)
      if (stale !== undefined) void send(disturber, [stale.settle], stale.tick)
    },
  }
}

const SETTLE = `
  select 'verdict' as kind, s.id::text as id, json_build_object('verdict', s.verdict)::text as data
  from tidegate.settle($1::jsonb, $2::uuid) as s
  where clock_timestamp() is not null`
