// CPU time that workerd spends on one idle tick, one enqueue and one tick of twenty jobs, for the free plan's 10 ms.
// Read from /proc, so Linux only; the mean over many, after a warm-up, JIT and all.
import { readFile } from 'node:fs/promises'

import { startBenchWorker } from './support/worker.ts'

const bench = await startBenchWorker({ KICK: 'off', TICK_CONCURRENCY: '4' })
const { worker, enqueue } = bench
const tick = async (): Promise<void> => {
  const { outcome } = await worker.scheduled()
  if (outcome !== 'ok') throw new Error(`expected the tick to be ok, it was ${outcome}`)
}
const enqueueTwenty = async (): Promise<void> => {
  for (let n = 0; n < 20; n += 1) await enqueue()
}

try {
  const cold = await cpuMs(tick, 1)
  await cpuMs(tick, 20)
  const idle = await cpuMs(tick, 100)
  await cpuMs(enqueue, 50)
  const enqueued = await cpuMs(enqueue, 200)
  await tick()
  const twenty = await cpuMs(tick, 50, enqueueTwenty)
  console.log(`first tick of a fresh process  ${cold.toFixed(1)} ms`)
  console.log(`idle tick                      ${idle.toFixed(2)} ms`)
  console.log(`one enqueue                    ${enqueued.toFixed(2)} ms`)
  console.log(`tick of twenty jobs            ${twenty.toFixed(2)} ms`)
} finally {
  await bench.stop()
}

/** Mean CPU milliseconds of workerd per call, without what comes `before` each. /proc counts in steps of 10 ms, hence the many. */
async function cpuMs(
  once: () => Promise<unknown>,
  times: number,
  before?: () => Promise<void>,
): Promise<number> {
  let ticks = 0
  for (let n = 0; n < times; n += 1) {
    await before?.()
    const start = await cpuTicks(worker.pid)
    await once()
    ticks += (await cpuTicks(worker.pid)) - start
  }
  return (ticks * 10) / times
}

async function cpuTicks(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return Number(fields[11]) + Number(fields[12])
}
