// From a committed enqueue to its leased job, by the kick alone, in workerd, when nothing else goes on: one enqueue
// after the other, each after the last one was completed. By the database's clock.
import { startBenchWorker } from './support/worker.ts'

const bench = await startBenchWorker({ KICK: 'on' })
const times = 100

try {
  const waits: number[] = []
  for (let n = 0; n < times + 10; n += 1) {
    const id = await bench.enqueue()
    const waited = await untilCompleted(id)
    // The first ones warm up.
    if (n >= 10) waits.push(waited)
  }
  waits.sort((a, b) => a - b)
  const quantile = (q: number) => (waits[Math.floor(q * (waits.length - 1))] ?? 0).toFixed(1)
  console.log(
    `enqueue to start, ${times} jobs: p50 ${quantile(0.5)} ms, p90 ${quantile(0.9)} ms, p99 ${quantile(0.99)} ms`,
  )
} finally {
  await bench.stop()
}

async function untilCompleted(id: string): Promise<number> {
  for (;;) {
    const { rows } = await bench.client.query<{ waited: number }>(
      `select extract(epoch from started_at - created_at)::float8 * 1000 as waited
       from tidegate.jobs where id = $1 and status = 'completed'`,
      [id],
    )
    if (rows[0] !== undefined) return rows[0].waited
  }
}
