import { setTimeout as sleep } from 'node:timers/promises'

import { openPg } from '../../src/db/pg.ts'
import { enqueueSomehow, PRODUCER_DRIVER, type Producer } from './enqueuing.ts'
import { openJournal } from './journal.ts'
import { operate } from './operator.ts'
import { createRandom } from './random.ts'

/** What a producer process is told, as JSON in its first argument. */
export interface ProducerConfig {
  /** Begins the keys of this one process. */
  readonly name: string
  readonly journalFile: string
  /** Through the proxy. */
  readonly url: string
  readonly jobsPerMinute: number
  readonly seed: number
}

/** Clients that enqueue at the same time. */
const CLIENTS = 4

const config = JSON.parse(process.argv[2] ?? '') as ProducerConfig
let ending = false
process.on('SIGTERM', () => (ending = true))
process.on('disconnect', () => process.exit(1))

await main(config)
process.exit(0)

async function main({ url, journalFile, seed }: ProducerConfig): Promise<void> {
  const shared = { journal: openJournal(journalFile), random: createRandom(seed), recent: [] }
  const open = () => openPg({ url, ...PRODUCER_DRIVER })
  await Promise.all([
    ...Array.from({ length: CLIENTS }, () => produce({ ...config, ...shared, database: open() })),
    operate(open(), shared.random, shared.recent, () => ending),
  ])
}

async function produce(producer: Producer): Promise<void> {
  const pauseMs = (60_000 / config.jobsPerMinute) * CLIENTS
  while (!ending) {
    const began = performance.now()
    await enqueueSomehow(producer)
    const restMs = pauseMs * (0.5 + producer.random()) - (performance.now() - began)
    await sleep(Math.max(0, restMs))
  }
  await producer.database.close()
}
