import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import { decide } from '../../src/core/decide.ts'
import type { Status } from '../../src/core/job.ts'
import type { Outcome } from '../../src/core/outcome.ts'
import { close } from '../../src/store/close.ts'
import { enqueue } from '../../src/store/enqueue.ts'
import { readMetrics } from '../../src/store/metrics.ts'
import { cancel, requeue } from '../../src/store/operate.ts'
import type { Lease, Settle } from '../../src/store/work.ts'
import { createStateMachine, type StateMachine } from '../support/state-machine.ts'
import { claimOf, drivers, environment, openStore, step, type Store } from '../support/store.ts'

/**
 * Random histories, played by the store and by the state machine; after every command both must say the same of
 * every job and every counter. The clock of the state machine moves only by command, the database's also by
 * itself: so commands move both by whole minutes, and what ends, ends on half of one.
 */
describe.each(drivers)('the store over $name', (driver) => {
  it('does what the state machine says, whatever the history', async () => {
    let played = 0
    let playing: Promise<void> | undefined
    const play = async (history: Iterable<Command>) => {
      const store = await openStore(driver)
      try {
        await step(store.sql)
        await fc.asyncModelRun(() => ({ model: createStateMachine(), real: { store, leases: [] } }), history)
        played += 1
      } finally {
        await store.close()
      }
    }
    const histories = fc.commands<StateMachine, Real, false>(commands, { maxCommands: 80, size: 'max' })
    const property = fc.asyncProperty(histories, (history) => (playing = play(history)))
    // The time limit also ends the search for a shorter failing history; the seed of what was found is printed.
    const limits = {
      numRuns: Math.ceil(60 / drivers.length),
      // Every driver gets through a few: in workerd each of a history's statements makes a connection.
      interruptAfterTimeLimit: Math.max(6_000, 12_000 / drivers.length),
    }
    try {
      await fc.assert(property, limits)
    } finally {
      // An interruption does not wait for the history that it interrupts.
      await playing?.catch(() => undefined)
    }
    expect(played).toBeGreaterThan(0)
  })
})

interface Real {
  readonly store: Store
  /** Every lease that was ever given. */
  readonly leases: Lease[]
}

type Command = fc.AsyncCommand<StateMachine, Real>

const MINUTE_MS = 60_000
const HALF_MS = 30_000
const LEASE_MS = MINUTE_MS + HALF_MS
const RETAIN_MS = MINUTE_MS + HALF_MS
const TYPE = 't'

const claims = fc.record({ limit: fc.integer({ min: 1, max: 3 }), suspects: fc.boolean() })
const failure = { kind: 'failed', error: 'it broke', permanent: false, returned: true } as const
const outcomes = fc.constantFrom<Outcome>(
  { kind: 'succeeded' },
  failure,
  { ...failure, permanent: true },
  { ...failure, code: 'timeout', returned: false },
  { kind: 'snoozed', delayMs: HALF_MS },
  { kind: 'interrupted', entered: true },
  { kind: 'interrupted', entered: false },
)

const enqueues = fc
  .record({
    key: fc.constantFrom('a', 'b', 'c', 'd'),
    priority: fc.constantFrom(0, 5),
    delayMs: fc.constantFrom(0, 0, HALF_MS),
    maxAttempts: fc.constantFrom(1, 1, 2, 3),
  })
  .map(({ key, delayMs, ...fields }) =>
    command(`enqueue ${key} ${JSON.stringify({ delayMs, ...fields })}`, async (model, { store }) => {
      const input = { type: TYPE, payload: '{}', idempotencyKey: key, delayMs, ...fields }
      const enqueued = await enqueue(store.sql, input)
      const id = 'job' in enqueued ? enqueued.job.id : ''
      agree(enqueued.outcome, model.enqueue({ id, key, ...fields }, delayMs))
    }),
  )

const runs = fc.tuple(claims, fc.array(outcomes, { minLength: 3, maxLength: 3 })).map(([claim, ends]) =>
  command(`run ${JSON.stringify(claim)} ${words(ends)}`, async (model, real) => {
    const leased = await lease(model, real, claim)
    await settle(
      model,
      real,
      leased.map((lease, n) => [lease, ends[n] ?? failure] as const),
    )
  }),
)

const crashes = claims.map((claim) =>
  command(`crash ${JSON.stringify(claim)}`, async (model, real) => {
    await lease(model, real, claim)
  }),
)

const lateSettles = fc.tuple(fc.nat(), outcomes).map(([n, outcome]) =>
  command(`settle late ${n} ${words([outcome])}`, async (model, real) => {
    const old = real.leases.at(-1 - (n % Math.max(real.leases.length, 1)))
    if (old !== undefined) await settle(model, real, [[old, outcome]])
  }),
)

const reaps = fc.constant(
  command('reap', async (model, real) => {
    const { expired } = await step(real.store.sql, { expired: 10 })
    agree(
      expired.map(({ id }) => id),
      model.expired(),
    )
    await settle(
      model,
      real,
      expired.map((lease) => [lease, { kind: 'crashed' }] as const),
    )
  }),
)

const cancels = fc.nat().map((n) =>
  command(`cancel ${n}`, async (model, { store }) => {
    const id = pick(model, n, ['running', 'pending'])
    if (id !== undefined) agree((await cancel(store.sql, id)).outcome, model.cancel(id))
  }),
)

const requeues = fc.nat().map((n) =>
  command(`requeue ${n}`, async (model, { store }) => {
    const id = pick(model, n, ['dead', 'cancelled'])
    if (id !== undefined) agree((await requeue(store.sql, id, 'ann')).outcome, model.requeue(id))
  }),
)

const prunes = fc.constant(
  command('prune', async (model, { store }) => {
    agree(await prune(store), model.prune(RETAIN_MS))
  }),
)

// Two minutes outlast a lease, one minute every delay.
const waits = fc.constantFrom(1, 2).map((minutes) =>
  command(`wait ${minutes} min`, async (model, { store }) => {
    model.moveClock(minutes * MINUTE_MS)
    await store.moveClock(model.nowMs())
  }),
)

// Twice what a job needs to become a suspect and to run as one.
const commands = [
  enqueues,
  runs,
  runs,
  crashes,
  crashes,
  waits,
  waits,
  waits,
  reaps,
  reaps,
  lateSettles,
  cancels,
  requeues,
  prunes,
]

function command(words: string, run: (model: StateMachine, real: Real) => Promise<void>): Command {
  return {
    check: () => true,
    toString: () => words,
    async run(model, real) {
      await run(model, real)
      const [jobs, counters] = await Promise.all([readJobs(real.store), readCounters(real.store)])
      agree(jobs, viewOf(model))
      agree(counters, Object.fromEntries(model.counters()))
    },
  }
}

function agree(real: unknown, model: unknown): void {
  expect(real).toEqual(model)
}

/** Leases on both sides, which must agree on what and in which order. */
async function lease(
  model: StateMachine,
  { store, leases }: Real,
  claim: { readonly limit: number; readonly suspects: boolean },
): Promise<readonly Lease[]> {
  const request = claimOf({ ...claim, leaseMs: LEASE_MS })
  const { jobs } = await step(store.sql, { claim: request })
  agree(
    jobs.map(({ id }) => id),
    model.claim(request),
  )
  leases.push(...jobs)
  return jobs
}

/** Settles in one call on the one side and one by one on the other. */
async function settle(
  model: StateMachine,
  { store }: Real,
  ended: readonly (readonly [Lease, Outcome])[],
): Promise<void> {
  const tick = crypto.randomUUID()
  const settles = ended.map(([lease, outcome]): Settle => {
    const settlement = decide(lease, outcome, { delaysMs: [HALF_MS] }, () => 0)
    return { id: lease.id, token: lease.token, settlement }
  })
  const { verdicts } = await step(store.sql, { tick, settles })
  const expected = ended.map(([lease, outcome]) => model.settle(lease, outcome, { tick, delayMs: HALF_MS }))
  agree(
    ended.map(([{ id }]) => verdicts.get(id)?.verdict),
    expected,
  )
}

async function prune(store: Store): Promise<number> {
  const { pruned } = await close(store.sql, {
    environment,
    tick: crypto.randomUUID(),
    types: [TYPE],
    settles: [],
    retention: {
      completedSeconds: RETAIN_MS / 1_000,
      cancelledSeconds: RETAIN_MS / 1_000,
      deadSeconds: RETAIN_MS / 1_000,
    },
    prune: 10,
    fold: 20,
    record: { stopped: 'empty', durationMs: 0, report: {} },
  })
  return pruned
}

/** One of the jobs: mostly one in these states, in which the command does something. */
function pick(model: StateMachine, n: number, states: readonly Status[]): string | undefined {
  const jobs = model.jobs()
  const apt = jobs.filter(({ status }) => states.includes(status))
  const among = apt.length === 0 || n % 5 === 0 ? jobs : apt
  return among.at(n % Math.max(among.length, 1))?.id
}

function viewOf(model: StateMachine): object[] {
  return model.jobs().map((job) => ({
    key: job.key,
    status: job.status,
    attempts: job.attempts,
    suspect: job.suspect,
    marked: job.marked,
    due: model.isDue(job),
  }))
}

function readJobs(store: Store): Promise<object[]> {
  return store.db.query(`
    select
      j.idempotency_key as key, j.status, j.attempts, j.suspect,
      j.status = 'running' and j.cancel_requested_at is not null as marked,
      j.status = 'pending' and j.available_at <= tidegate.now() as due
    from tidegate.jobs as j
    order by j.id`)
}

async function readCounters(store: Store): Promise<object> {
  const sums = new Map<string, number>()
  for (const { name, label, value } of await readMetrics(store.sql)) {
    if (!/^jobs_.*_total$/.test(name)) continue
    const word = name === 'jobs_processed_total' ? label : name.slice('jobs_'.length, -'_total'.length)
    sums.set(word, (sums.get(word) ?? 0) + value)
  }
  return Object.fromEntries(sums)
}

function words(outcomes: readonly Outcome[]): string {
  return outcomes.map((outcome) => JSON.stringify(outcome)).join(' ')
}
