import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'

import { DatabaseError } from '../../src/db/errors.ts'
import { openPg } from '../../src/db/pg.ts'
import type { Database } from '../../src/db/sql.ts'
import { enqueue, enqueueStatement, type EnqueueInput } from '../../src/store/enqueue.ts'
import type { Script } from './behaviours.ts'
import type { Journal } from './journal.ts'
import { nextJob } from './mix.ts'
import { between, pickOne, pickWeighted, type Random } from './random.ts'

/** One client that enqueues. */
export interface Producer {
  /** Begins its keys. */
  readonly name: string
  readonly url: string
  readonly database: Database
  readonly journal: Journal
  readonly random: Random
  /** Lately created jobs, of all clients of the process. */
  readonly recent: { readonly input: EnqueueInput; readonly job: string }[]
}

/** Bounds of a producer's connections. */
export const PRODUCER_DRIVER = { timeoutMs: 1_500, connectTimeoutMs: 1_000 } as const

/** A key is repeated for so long, well within the time that its finished job is kept. */
const PATIENCE_MS = 12_000
const REMEMBERED = 200

/** Enqueues in one of the ways in which callers do. */
export function enqueueSomehow(producer: Producer): Promise<void> {
  return pickWeighted(producer.random, WAYS)(producer)
}

const WAYS: readonly (readonly [(producer: Producer) => Promise<void>, number])[] = [
  [enqueueUntilKnown, 66],
  [repeatKey, 8],
  [reuseKey, 4],
  [enqueueTwins, 6],
  [enqueueInTransaction, 10],
  [enqueueRefused, 3],
  [enqueueOnce, 3],
]

let keys = 0

function fresh({ name, random }: Producer): EnqueueInput {
  keys += 1
  return { ...nextJob(random), idempotencyKey: `${name}:${keys}` }
}

/** What callers must do: repeat an enqueue under its key while its outcome is unknown. */
async function enqueueUntilKnown(producer: Producer, input = fresh(producer)): Promise<void> {
  const giveUpAt = performance.now() + PATIENCE_MS
  for (let tries = 0; performance.now() < giveUpAt; tries += 1) {
    if ((await attempt(producer, input)) !== 'unknown') return
    await sleep(50 * 2 ** Math.min(tries, 5))
  }
}

async function enqueueOnce(producer: Producer): Promise<void> {
  await attempt(producer, fresh(producer))
}

async function repeatKey(producer: Producer): Promise<void> {
  const known = pickOne(producer.random, producer.recent)
  if (known !== undefined) await enqueueUntilKnown(producer, known.input)
}

async function reuseKey(producer: Producer): Promise<void> {
  const known = pickOne(producer.random, producer.recent)
  const another: Script = { script: ['ok'], ms: 0, ballast: 'another' }
  const payload = JSON.stringify(another)
  if (known !== undefined) await enqueueUntilKnown(producer, { ...known.input, payload })
}

/** Two clients at once under one key. */
async function enqueueTwins(producer: Producer): Promise<void> {
  const input = fresh(producer)
  const another = openPg({ url: producer.url, ...PRODUCER_DRIVER })
  await Promise.all([
    enqueueUntilKnown(producer, input),
    enqueueUntilKnown({ ...producer, database: another }, input),
  ])
  await another.close()
}

/** What the database refuses for good. */
async function enqueueRefused(producer: Producer): Promise<void> {
  await attempt(producer, { ...fresh(producer), maxAttempts: 101 })
}

async function attempt({ database, journal, recent }: Producer, input: EnqueueInput) {
  const call = crypto.randomUUID()
  const row = { key: input.idempotencyKey, call, job: null, transaction: false }
  journal.write('enqueues', { ...row, outcome: 'sent' })
  try {
    const enqueued = await enqueue(database.sql, input)
    if (enqueued.outcome === 'unknown_type') throw new Error('expected every type to be known')
    journal.write('enqueues', { ...row, outcome: 'acknowledged', job: enqueued.job.id })
    if (enqueued.outcome === 'created') recent.push({ input, job: enqueued.job.id })
    if (recent.length > REMEMBERED) recent.shift()
    return 'acknowledged'
  } catch (error) {
    if (!(error instanceof DatabaseError)) throw error
    const outcome = error.kind === 'ambiguous' ? 'unknown' : 'failed'
    journal.write('enqueues', { ...row, outcome })
    return outcome
  }
}

/** A caller that writes something of its own and enqueues in one transaction, which it may roll back. */
async function enqueueInTransaction(producer: Producer): Promise<void> {
  const { journal, random } = producer
  const inputs = Array.from({ length: between(random, 1, 3) }, () => fresh(producer))
  const rows = inputs.map(({ idempotencyKey: key }) => ({
    key,
    call: crypto.randomUUID(),
    job: null,
    transaction: true,
  }))
  const note = (outcome: 'sent' | 'committed' | 'rolled back' | 'unknown') =>
    rows.forEach((row) => journal.write('enqueues', { ...row, outcome }))
  const commits = random() < 0.7
  const client = new Client({
    connectionString: producer.url,
    application_name: 'caller',
    query_timeout: PRODUCER_DRIVER.timeoutMs,
    connectionTimeoutMillis: PRODUCER_DRIVER.connectTimeoutMs,
  })
  client.on('error', () => undefined)
  note('sent')
  let committing = false
  try {
    await client.connect()
    await client.query('begin')
    for (const input of inputs) {
      await client.query('insert into soak.orders (key) values ($1::text)', [input.idempotencyKey])
      const { text, params } = enqueueStatement(input)
      await client.query(text, [...params])
    }
    committing = commits
    await client.query(commits ? 'commit' : 'rollback')
    note(commits ? 'committed' : 'rolled back')
  } catch {
    note(committing ? 'unknown' : 'rolled back')
  } finally {
    void client.end().catch(() => undefined)
  }
}
