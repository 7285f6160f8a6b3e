import { expect, it } from 'vitest'

import { openPg } from '../../src/db/pg.ts'
import { renderMetrics } from '../../src/metrics.ts'
import { readMetrics } from '../../src/store/metrics.ts'
import { job, openRoot } from '../support/tick.ts'

const BOUNDS = ['0.1', '0.25', '0.5', '1', '2.5', '5', '10', '30', '60', '120', '300']

it('what takes exactly a bound is in its bucket, and a microsecond more is in the next', async () => {
  const root = await openRoot()
  const own = openPg({ url: root.db.url })
  try {
    await root.db.query(
      `create or replace function tidegate.now() returns timestamptz
       language sql stable parallel safe
       return timestamptz '2030-01-01T00:00:00Z'`,
    )
    const waitsUs = BOUNDS.map(Number).flatMap((seconds) => [seconds * 1_000_000, seconds * 1_000_000 + 1])
    for (const us of waitsUs) {
      const id = await root.put('t')
      await root.db.query(
        `update tidegate.jobs set available_at = tidegate.now() - $2 * interval '1 microsecond' where id = $1`,
        [id, us],
      )
    }
    await root.tick([job(() => undefined)])
    const { body } = await renderMetrics(await readMetrics(own.sql))
    const counted = BOUNDS.map((le) =>
      body.includes(`job_start_latency_seconds_bucket{le="${le}",type="t"} ${2 * BOUNDS.indexOf(le) + 1}\n`),
    )
    expect(BOUNDS.filter((_, index) => counted[index] !== true)).toEqual([])
    expect(body).toContain(`job_start_latency_seconds_bucket{le="+Inf",type="t"} ${waitsUs.length}\n`)
    expect(body).toContain(`job_start_latency_seconds_count{type="t"} ${waitsUs.length}\n`)
    expect(body).toContain(
      `job_start_latency_seconds_sum{type="t"} ${waitsUs.reduce((sum, us) => sum + us) / 1_000_000}\n`,
    )
  } finally {
    await own.close()
    await root.close()
  }
})
