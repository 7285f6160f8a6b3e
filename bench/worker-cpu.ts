// CPU time that workerd spends on one idle tick, one enqueue and one tick of twenty jobs, for the free plan's 10 ms.
// Read from /proc, so Linux only; the mean over many, after a warm-up, JIT and all.
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { startPostgres } from '../scripts/postgres.ts'
import { bundleWorker } from '../scripts/workerd/bundle.ts'
import { startWorkerd, type Workerd } from '../scripts/workerd.ts'
import { migrate } from '../src/migrate.ts'

const token = 'operator-token-of-the-bench'
const folder = await mkdtemp(join(tmpdir(), 'tidegate-bench-'))
const postgres = await startPostgres({ dataDir: join(folder, 'data') })
await migrate({ url: postgres.url(), environment: 'bench' })
const worker = await startWorkerd({
  bundle: await bundleWorker(),
  vars: {
    DATABASE_URL: postgres.url(),
    TIDEGATE_ENV: 'bench',
    OPERATOR_TOKENS: token,
    KICK: 'off',
    LOG_LEVEL: 'warn',
    TICK_CONCURRENCY: '4',
  },
})

let keys = 0
const enqueue = async (): Promise<void> => {
  keys += 1
  const response = await fetch(`${worker.url}/jobs`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ type: 'test.echo', payload: { n: keys }, idempotency_key: `bench-${keys}` }),
  })
  await response.arrayBuffer()
}
const tick = async (): Promise<void> => {
  const { outcome } = await worker.scheduled()
  if (outcome !== 'ok') throw new Error(`expected the tick to be ok, it was ${outcome}`)
}

try {
  const cold = await cpuMs(worker, tick, 1)
  await cpuMs(worker, tick, 20)
  const idle = await cpuMs(worker, tick, 100)
  await cpuMs(worker, enqueue, 50)
  const enqueued = await cpuMs(worker, enqueue, 200)
  await tick()
  const enqueueTwenty = async () => {
    for (let n = 0; n < 20; n += 1) await enqueue()
  }
  const both = await cpuMs(
    worker,
    async () => {
      await enqueueTwenty()
      await tick()
    },
    20,
  )
  console.log(`first tick of a fresh process  ${cold.toFixed(1)} ms`)
  console.log(`idle tick                      ${idle.toFixed(2)} ms`)
  console.log(`one enqueue                    ${enqueued.toFixed(2)} ms`)
  console.log(`tick of twenty jobs            ${(both - 20 * enqueued).toFixed(2)} ms`)
} finally {
  await worker.stop()
  await postgres.stop()
  await rm(folder, { recursive: true, force: true })
}

/** Mean CPU milliseconds of the process per call. /proc counts in ticks of 10 ms, hence the many. */
async function cpuMs(process_: Workerd, once: () => Promise<void>, times: number): Promise<number> {
  const before = await cpuTicks(process_.pid)
  for (let n = 0; n < times; n += 1) await once()
  return (((await cpuTicks(process_.pid)) - before) * 10) / times
}

async function cpuTicks(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return Number(fields[11]) + Number(fields[12])
}
