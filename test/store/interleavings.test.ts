import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'

import type { Settlement } from '../../src/core/outcome.ts'
import type { Sql } from '../../src/db/sql.ts'
import { adopt } from '../../src/store/adopt.ts'
import { close } from '../../src/store/close.ts'
import { enqueue } from '../../src/store/enqueue.ts'
import { readMetrics } from '../../src/store/metrics.ts'
import { cancel, requeue } from '../../src/store/operate.ts'
import { begin, blocks } from '../support/sessions.ts'
import {
  claim,
  claimOf,
  dead,
  drivers,
  environment,
  openStore,
  put,
  retry,
  step,
  type Store,
} from '../support/store.ts'

type Operation = keyof typeof operations
type State = keyof typeof states

/**
 * The first operation runs in a transaction that stays open. The second starts, and either waits for it or
 * passes by. The transaction commits or rolls back. What is expected of either end: the answers of both, then
 * the status of the job, its attempts and marks, then the counters that have moved.
 */
type Meeting = readonly [
  first: Operation,
  second: Operation,
  meets: 'waits' | 'passes',
  commit: string,
  rollback: string,
]

// prettier-ignore
const meetings: Readonly<Record<State, readonly Meeting[]>> = {
  none: [
    ['enqueue', 'enqueue', 'waits', 'created, replayed: pending 0 [enqueued 1]', 'created, created: pending 0 [enqueued 1]'],
  ],
  pending: [
    ['claim', 'claim', 'passes', 'leased, nothing: running 1 []', 'leased, nothing: pending 0 []'],
    ['claim', 'cancel', 'waits', 'leased, ok: running 1 marked []', 'leased, ok: cancelled 0 [cancelled 1]'],
    ['cancel', 'claim', 'passes', 'ok, nothing: cancelled 0 [cancelled 1]', 'ok, nothing: pending 0 []'],
    ['cancel', 'cancel', 'waits', 'ok, conflict: cancelled 0 [cancelled 1]', 'ok, ok: cancelled 0 [cancelled 1]'],
    ['claim', 'enqueue', 'waits', 'leased, replayed: running 1 []', 'leased, replayed: pending 0 []'],
    ['claim', 'adopt', 'waits', 'leased, marked: running 1 marked []', 'leased, cancelled: cancelled 0 [cancelled 1]'],
    ['adopt', 'cancel', 'waits', 'cancelled, conflict: cancelled 0 [cancelled 1]', 'cancelled, ok: cancelled 0 [cancelled 1]'],
    ['adopt', 'adopt', 'waits', 'cancelled, nothing: cancelled 0 [cancelled 1]', 'cancelled, cancelled: cancelled 0 [cancelled 1]'],
  ],
  running: [
    ['complete', 'cancel', 'waits', 'settled, conflict: completed 1 [completed 1]', 'settled, ok: running 1 marked []'],
    ['cancel', 'complete', 'waits', 'ok, settled: completed 1 [completed 1]', 'ok, settled: completed 1 [completed 1]'],
    ['retry', 'cancel', 'waits', 'settled, ok: cancelled 1 [cancelled 1, failed 1]', 'settled, ok: running 1 marked []'],
    ['cancel', 'retry', 'waits', 'ok, settled: cancelled 1 [cancelled 1, failed 1]', 'ok, settled: pending 1 [failed 1]'],
    ['die', 'cancel', 'waits', 'settled, conflict: dead 1 [died 1, failed 1]', 'settled, ok: running 1 marked []'],
    ['cancel', 'die', 'waits', 'ok, settled: dead 1 [died 1, failed 1]', 'ok, settled: dead 1 [died 1, failed 1]'],
    ['release', 'cancel', 'waits', 'settled, ok: cancelled 0 [cancelled 1, released 1]', 'settled, ok: running 1 marked []'],
    ['cancel', 'release', 'waits', 'ok, settled: cancelled 0 [cancelled 1, released 1]', 'ok, settled: pending 0 [released 1]'],
    ['snooze', 'cancel', 'waits', 'settled, ok: cancelled 0 [cancelled 1, snoozed 1]', 'settled, ok: running 1 marked []'],
    ['cancel', 'snooze', 'waits', 'ok, settled: cancelled 0 [cancelled 1, snoozed 1]', 'ok, settled: pending 0 [snoozed 1]'],
    ['cancel', 'cancel', 'waits', 'ok, ok: running 1 marked []', 'ok, ok: running 1 marked []'],
    ['complete', 'complete', 'waits', 'settled, already: completed 1 [completed 1]', 'settled, settled: completed 1 [completed 1]'],
    ['complete', 'retry', 'waits', 'settled, already: completed 1 [completed 1]', 'settled, settled: pending 1 [failed 1]'],
    ['retry', 'complete', 'waits', 'settled, already: pending 1 [failed 1]', 'settled, settled: completed 1 [completed 1]'],
    ['release', 'claim', 'passes', 'settled, nothing: pending 0 [released 1]', 'settled, nothing: running 1 []'],
    ['complete', 'enqueue', 'waits', 'settled, replayed: completed 1 [completed 1]', 'settled, replayed: running 1 []'],
  ],
  expired: [
    ['complete', 'reap', 'waits', 'settled, lost: completed 1 [completed 1]', 'settled, settled: pending 1 suspect [failed 1, reaped 1]'],
    ['reap', 'complete', 'waits', 'settled, lost: pending 1 suspect [failed 1, lease_lost 1, reaped 1]', 'settled, settled: completed 1 [completed 1]'],
    ['reap', 'reap', 'waits', 'settled, lost: pending 1 suspect [failed 1, reaped 1]', 'settled, settled: pending 1 suspect [failed 1, reaped 1]'],
    ['reap as one tick', 'reap as one tick', 'waits', 'settled, already: pending 1 suspect [failed 1, reaped 1]', 'settled, settled: pending 1 suspect [failed 1, reaped 1]'],
    ['cancel', 'reap', 'waits', 'ok, settled: cancelled 1 suspect [cancelled 1, failed 1, reaped 1]', 'ok, settled: pending 1 suspect [failed 1, reaped 1]'],
    ['reap', 'cancel', 'waits', 'settled, ok: cancelled 1 suspect [cancelled 1, failed 1, reaped 1]', 'settled, ok: running 1 marked []'],
    ['reap', 'claim suspect', 'passes', 'settled, nothing: pending 1 suspect [failed 1, reaped 1]', 'settled, nothing: running 1 []'],
  ],
  // Expired, and no attempt is left.
  spent: [
    ['reap to death', 'cancel', 'waits', 'settled, conflict: dead 1 suspect [died 1, failed 1, reaped 1]', 'settled, ok: running 1 marked []'],
    ['cancel', 'reap to death', 'waits', 'ok, settled: cancelled 1 suspect [cancelled 1, failed 1, reaped 1]', 'ok, settled: dead 1 suspect [died 1, failed 1, reaped 1]'],
    ['reap to death', 'complete', 'waits', 'settled, lost: dead 1 suspect [died 1, failed 1, lease_lost 1, reaped 1]', 'settled, settled: completed 1 [completed 1]'],
  ],
  // From here on `complete` is the late settle of a lease that has ended.
  recovered: [
    ['claim suspect', 'complete', 'passes', 'leased, lost: running 2 suspect [lease_lost 1]', 'leased, lost: pending 1 suspect [lease_lost 1]'],
    ['complete', 'claim suspect', 'passes', 'lost, leased: running 2 suspect [lease_lost 1]', 'lost, leased: running 2 suspect []'],
    ['claim suspect', 'claim suspect', 'passes', 'leased, nothing: running 2 suspect []', 'leased, nothing: pending 1 suspect []'],
  ],
  retried: [
    ['claim', 'complete', 'passes', 'leased, already: running 2 []', 'leased, already: pending 1 []'],
    ['complete', 'claim', 'passes', 'already, leased: running 2 []', 'already, leased: running 2 []'],
  ],
  'old dead': [
    ['requeue', 'requeue', 'waits', 'ok, conflict: pending 0 [requeued 1]', 'ok, ok: pending 0 [requeued 1]'],
    ['requeue', 'prune', 'passes', 'ok, pruned 0: pending 0 [requeued 1]', 'ok, pruned 0: dead 1 []'],
    ['prune', 'requeue', 'waits', 'pruned 1, not_found: gone [pruned 1]', 'pruned 1, ok: pending 0 [requeued 1]'],
    ['prune', 'prune', 'passes', 'pruned 1, pruned 0: gone [pruned 1]', 'pruned 1, pruned 0: dead 1 []'],
    ['prune', 'cancel', 'passes', 'pruned 1, conflict: gone [pruned 1]', 'pruned 1, conflict: dead 1 []'],
    ['requeue', 'claim', 'passes', 'ok, nothing: pending 0 [requeued 1]', 'ok, nothing: dead 1 []'],
    ['requeue', 'cancel', 'passes', 'ok, conflict: pending 0 [requeued 1]', 'ok, conflict: dead 1 []'],
    ['requeue', 'complete', 'passes', 'ok, already: pending 0 [requeued 1]', 'ok, already: dead 1 []'],
  ],
  'old cancelled': [
    ['requeue', 'requeue', 'waits', 'ok, conflict: pending 0 [requeued 1]', 'ok, ok: pending 0 [requeued 1]'],
    ['requeue', 'prune', 'passes', 'ok, pruned 0: pending 0 [requeued 1]', 'ok, pruned 0: cancelled 0 []'],
    ['prune', 'requeue', 'waits', 'pruned 1, not_found: gone [pruned 1]', 'pruned 1, ok: pending 0 [requeued 1]'],
  ],
  'old completed': [
    ['prune', 'enqueue', 'waits', 'pruned 1, created: pending 0 [enqueued 1, pruned 1]', 'pruned 1, replayed: completed 1 []'],
    ['enqueue', 'prune', 'passes', 'replayed, pruned 1: gone [pruned 1]', 'replayed, pruned 1: gone [pruned 1]'],
  ],
}

const cases = Object.entries(meetings).flatMap(([of, rows]) =>
  rows.flatMap(([first, second, meets, commit, rollback]) => [
    { of: of as State, first, second, meets, end: 'commit' as const, expected: commit },
    { of: of as State, first, second, meets, end: 'rollback' as const, expected: rollback },
  ]),
)

describe.each(drivers)('two sessions over $name', (driver) => {
  let store: Store
  beforeAll(async () => {
    store = await openStore(driver)
    await step(store.sql)
  })
  afterAll(() => store.close())
  beforeEach(async () => {
    await store.db.query('truncate tidegate.jobs, tidegate.counters, tidegate.counter_deltas')
    await store.db.query('update tidegate.meta set environment = $1', [environment])
    await store.moveClock(0)
  })

  it.each(cases)('$of: $first, then $second $meets until the $end', async (meeting) => {
    await states[meeting.of](store)
    const before = await counters(store)
    const id = await idOf(store)
    const open = await begin(store.db)
    const one = await operations[meeting.first](open.sql, id)
    const two = operations[meeting.second](store.sql, id)
    const meets = (await blocks(store.db, open, two)) ? 'waits' : 'passes'
    await open.end(meeting.end)
    const answers = `${one}, ${await two}`
    const moved = difference(before, await counters(store))
    expect(`${answers}: ${await theJob(store)} [${moved}]`).toBe(meeting.expected)
    expect(meets).toBe(meeting.meets)
  })

  it.each([
    ['cancel', 'reap'],
    ['reap', 'cancel'],
  ] as const)('a job cancelled during its recovery never runs again: %s, then %s', async (first, second) => {
    await states.expired(store)
    const id = await idOf(store)
    const open = await begin(store.db)
    await operations[first](open.sql, id)
    const two = operations[second](store.sql, id)
    await blocks(store.db, open, two)
    await open.end('commit')
    await two
    await store.moveClock(1_000 * HOUR)
    await expect(operations.claim(store.sql)).resolves.toBe('nothing')
    await expect(operations['claim suspect'](store.sql)).resolves.toBe('nothing')
    await expect(theJob(store)).resolves.toBe('cancelled 1 suspect')
  })

  it('finds a key free whose row is pruned between the two looks of an enqueue, and makes one job', async () => {
    await states['old completed'](store)
    // A statement that inserts nothing fires this trigger too.
    await store.db.query(`
      create function pause() returns trigger language plpgsql as 'begin perform pg_advisory_xact_lock(1); return null; end';
      create trigger pause after insert on tidegate.jobs execute function pause()`)
    const pause = await begin(store.db)
    await pause.sql('select pg_advisory_xact_lock(1)', [])
    const enqueued = operations.enqueue(store.sql)
    expect(await blocks(store.db, pause, enqueued)).toBe(true)
    const pruner = store.another()
    await expect(operations.prune(pruner.sql)).resolves.toBe('pruned 1')
    await pause.end('commit')
    await store.db.query('drop function pause cascade')
    await expect(enqueued).resolves.toBe('created')
    await expect(theJob(store)).resolves.toBe('pending 0')
  })
})

const HOUR = 3_600_000
const KEY = 'the one'
const TOKEN = '00000000-0000-4000-8000-00000000000a'
const TICK = '00000000-0000-4000-8000-00000000000b'
const crash = { crashed: true, outcome: 'crashed' }

/** What brings the one job from nothing into a state. Its first lease has TOKEN. */
const states = {
  none: async () => {},
  pending: async (store) => void (await put(store.sql, { idempotencyKey: KEY })),
  running: async (store) => {
    await put(store.sql, { idempotencyKey: KEY })
    await step(store.sql, { claim: claimOf({ token: TOKEN }) })
  },
  expired: async (store) => {
    await states.running(store)
    await store.moveClock(HOUR)
  },
  spent: async (store) => {
    await states.expired(store)
    await store.db.query('update tidegate.jobs set max_attempts = 1')
  },
  recovered: (store) => after(store, 'expired', 'reap'),
  retried: (store) => after(store, 'running', 'retry'),
  'old dead': (store) => after(store, 'running', 'die'),
  'old completed': (store) => after(store, 'running', 'complete'),
  'old cancelled': (store) => after(store, 'pending', 'cancel'),
} satisfies Record<string, (store: Store) => Promise<void>>

/** An operation in a state, and then a long time. */
async function after(
  store: Store,
  state: 'pending' | 'running' | 'expired',
  operation: Operation,
): Promise<void> {
  await states[state](store)
  await operations[operation](store.sql, await idOf(store))
  await store.moveClock(2 * HOUR)
}

/** What can be done to the one job, by the statements that the store sends for it. */
const operations = {
  enqueue: async (sql) => (await enqueue(sql, { type: 't', payload: '{}', idempotencyKey: KEY })).outcome,
  claim: (sql) => leasing(sql, false),
  'claim suspect': (sql) => leasing(sql, true),
  complete: (sql, id) => settling(sql, id, { kind: 'complete' }),
  retry: (sql, id) => settling(sql, id, retry()),
  die: (sql, id) => settling(sql, id, dead()),
  release: (sql, id) => settling(sql, id, { kind: 'release' }),
  snooze: (sql, id) => settling(sql, id, { kind: 'snooze', delayMs: 1_000, outcome: 'snoozed' }),
  reap: (sql, id) => settling(sql, id, retry(crash)),
  'reap as one tick': (sql, id) => settling(sql, id, retry(crash), TICK),
  'reap to death': (sql, id) => settling(sql, id, dead(crash)),
  cancel: async (sql, id) => (await cancel(sql, id)).outcome,
  requeue: async (sql, id) => (await requeue(sql, id, 'ann')).outcome,
  prune: async (sql) => `pruned ${await prune(sql)}`,
  adopt: async (sql) => {
    const { cancelled, marked } = await adopt(sql, { environment: 'preview', cancelPending: true })
    return cancelled > 0 ? 'cancelled' : marked > 0 ? 'marked' : 'nothing'
  },
} satisfies Record<string, (sql: Sql, id: string) => Promise<string>>

async function settling(
  sql: Sql,
  id: string,
  settlement: Settlement,
  tick: string = crypto.randomUUID(),
): Promise<string> {
  const { verdicts } = await step(sql, { tick, settles: [{ id, token: TOKEN, settlement }] })
  return verdicts.get(id)?.verdict ?? 'no verdict'
}

async function leasing(sql: Sql, suspects: boolean): Promise<string> {
  return (await claim(sql, { suspects })).length > 0 ? 'leased' : 'nothing'
}

/** Prunes what has been finished for a minute. */
async function prune(sql: Sql): Promise<number> {
  const { pruned } = await close(sql, {
    environment,
    tick: crypto.randomUUID(),
    types: [],
    settles: [],
    retention: { completedSeconds: 60, cancelledSeconds: 60, deadSeconds: 60 },
    prune: 10,
    fold: 0,
    record: { stopped: 'empty', durationMs: 0, report: {} },
  })
  return pruned
}

async function idOf(store: Store): Promise<string> {
  const [row] = await store.db.query<{ id: string }>('select id from tidegate.jobs')
  return row?.id ?? ''
}

/** The whole table in words: one job, or none. */
async function theJob(store: Store): Promise<string> {
  const rows = await store.db.query<{ job: string }>(`
    select concat_ws(' ',
      j.status, j.attempts,
      case when j.suspect then 'suspect' end,
      case when j.status = 'running' and j.cancel_requested_at is not null then 'marked' end
    ) as job
    from tidegate.jobs as j`)
  return rows.length === 0 ? 'gone' : rows.map(({ job }) => job).join(' and ')
}

/** The counters of jobs: totals and unfolded changes. */
async function counters(store: Store): Promise<ReadonlyMap<string, number>> {
  const rows = await readMetrics(store.sql)
  return new Map(
    rows
      .filter(({ name }) => /^jobs_.*_total$/.test(name))
      .map(({ name, label, value }) => [wordOf(name, label), value] as const),
  )
}

function wordOf(name: string, label: string): string {
  return name === 'jobs_processed_total' ? label : name.slice('jobs_'.length, -'_total'.length)
}

function difference(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): string {
  return [...after]
    .map(([word, value]) => [word, value - (before.get(word) ?? 0)] as const)
    .filter(([, moved]) => moved !== 0)
    .map(([word, moved]) => `${word} ${moved}`)
    .sort()
    .join(', ')
}
