import { inject } from 'vitest'

import { DatabaseError } from '../../src/db/errors.ts'
import { openPg } from '../../src/db/pg.ts'
import type { Database, Param } from '../../src/db/sql.ts'
import { createPush } from '../../src/push.ts'
import type { AnyJob } from '../../src/registry.ts'
import type { TickReport } from '../../src/report.ts'
import type { TickOptions } from '../../src/tick-options.ts'
import { moveClock } from '../support/store.ts'
import { openRoot, settings, type Root } from '../support/tick.ts'
import type { Told } from './audit.ts'
import { openNetwork, type Network } from './network.ts'
import type { Programs } from './programs-setup.ts'

/** Whether the real programs are there; without them the tests that need them are skipped. */
export const programs: Programs | undefined = inject('programs')

/** How one tick is troubled. */
export interface Trouble {
  /** Its process dies when this many-th call has committed, before it knows. */
  readonly diesAtCall?: number
  /** Its process dies when its snapshot is read and before it is sent. */
  readonly diesBeforePush?: boolean
  /** The answer of every so many-th call is lost after its commit. */
  readonly losesAnswerEvery?: number
  /** Where it pushes to, in place of the network. */
  readonly pushUrl?: string
  /** How long it waits for the gateway. */
  readonly pushTimeoutMs?: number
}

/** A root that pushes through a network of the test's to the run's gateway. */
export interface PushingRoot extends AsyncDisposable {
  readonly root: Root
  readonly instance: string
  readonly network: Network
  /** Runs a tick; undefined when it has died. */
  readonly tick: (
    jobs: Jobs,
    trouble?: Trouble,
    options?: Partial<TickOptions>,
  ) => Promise<TickReport | undefined>
  /** Moves the database's clock forward. */
  readonly advance: (ms: number) => Promise<void>
  /** What the ticks have told on the wire and in their reports. */
  readonly told: () => Told
}

/** The jobs of one tick. With `dawdle` a handler makes runs longer, by so many milliseconds of the tick's clock. */
export type Jobs = (dawdle: (ms: number) => void) => readonly AnyJob[]

export const PUSH_LEASE_MS = 30_000

const RETENTION = { completedSeconds: 3_000, cancelledSeconds: 3_000, deadSeconds: 4_500 }

/** Opens a root whose group on the gateway has this `instance`. */
export async function openPushingRoot(
  gateway: string,
  instance: string,
  onDelivery?: (sequence: number) => Promise<void>,
): Promise<PushingRoot> {
  const root = await openRoot()
  const network = await openNetwork(gateway, onDelivery)
  const durations: Told['durations'][number][] = []
  const ticks: Promise<TickReport>[] = []
  const ended = Promise.withResolvers<never>()
  ended.promise.catch(() => undefined)
  let lost = 0
  let offsetMs = 0

  const openDatabase = (trouble: Trouble, die: () => Promise<never>): Database => {
    const { diesAtCall = Infinity, losesAnswerEvery = Infinity } = trouble
    const database = openPg({ url: root.db.url })
    let calls = 0
    return {
      ...database,
      async sql(text, params) {
        calls += 1
        if (calls > diesAtCall) return ended.promise
        durations.push(...durationsIn(params))
        const answer = await database.sql(text, params)
        if (calls === diesAtCall) return die()
        if (calls % losesAnswerEvery === 0) throw new DatabaseError('no answer', { kind: 'ambiguous' })
        return answer
      },
    }
  }

  const startTick = (
    jobs: Jobs,
    trouble: Trouble,
    options: Partial<TickOptions>,
    die: () => Promise<never>,
  ) => {
    const { diesBeforePush = false, pushUrl: url = network.url, pushTimeoutMs: timeoutMs = 20_000 } = trouble
    let dawdledMs = 0
    return root.tick(
      jobs((ms) => void (dawdledMs += ms)),
      { windowMs: 900_000, ...options },
      {
        clock: () => performance.now() + dawdledMs,
        openDatabase: () => openDatabase(trouble, die),
        settings: { ...settings, retention: RETENTION, pushLeaseMs: PUSH_LEASE_MS },
        push: diesBeforePush ? die : createPush({ url, instance, timeoutMs }),
      },
    )
  }

  return {
    root,
    instance,
    network,
    async tick(jobs, trouble = {}, options = {}) {
      const death = Promise.withResolvers<undefined>()
      const tick = startTick(jobs, trouble, options, () => {
        death.resolve(undefined)
        return ended.promise
      })
      ticks.push(tick)
      const report = await Promise.race([tick, death.promise])
      lost += report?.lost ?? 0
      return report
    },
    async advance(ms) {
      offsetMs += ms
      await moveClock(root.db, offsetMs)
    },
    told: () => ({ durations, lost }),
    async [Symbol.asyncDispose]() {
      ended.reject(new DatabaseError('the test has ended', { kind: 'definite' }))
      await Promise.allSettled(ticks)
      await network[Symbol.asyncDispose]()
      await root.close()
    },
  }
}

/** The durations that a call of a tick carries with its settles. */
function durationsIn([request]: readonly Param[]): Told['durations'] {
  const { settle = [] } = JSON.parse(String(request)) as { settle?: readonly WireSettle[] }
  return settle.flatMap(({ id, token, duration_us: us }) => (us === undefined ? [] : [{ id, token, us }]))
}

interface WireSettle {
  readonly id: string
  readonly token: string
  readonly duration_us?: number
}
