import type { Pool } from 'pg'

import { ATTEMPT_CHECKS } from './attempts.ts'
import type { Check } from './check.ts'
import { COUNTER_CHECKS } from './counters.ts'
import { DERIVE } from './derive.ts'
import { ENQUEUE_CHECKS } from './enqueues.ts'
import { LEASE_CHECKS } from './leases.ts'
import { NEIGHBOUR_CHECKS } from './neighbours.ts'
import { TICK_CHECKS } from './ticks.ts'

/** What a check found. */
export interface Finding {
  readonly check: Check
  /** Rows examined. */
  readonly examined: number
  readonly violations: number
  /** A few of the rows that violate it. */
  readonly samples: readonly object[]
}

/** Every check, in the order of the guarantees. */
const CHECKS: readonly Check[] = [
  ...ENQUEUE_CHECKS,
  ...ATTEMPT_CHECKS,
  ...LEASE_CHECKS,
  ...COUNTER_CHECKS,
  ...TICK_CHECKS,
  ...NEIGHBOUR_CHECKS,
]

/** Derives what the checks ask about, then makes each of them. */
export async function runChecks(pool: Pool): Promise<readonly Finding[]> {
  await pool.query(NOTE_ACKNOWLEDGED)
  await pool.query(DERIVE)
  const findings: Finding[] = []
  for (const check of CHECKS) {
    const { rows } = await pool.query<{ examined: string; violations: string; samples: object[] | null }>(`
      select
        count(*) as examined,
        count(*) filter (where r.ok is not true) as violations,
        (array_agg(r.detail) filter (where r.ok is not true))[1:5] as samples
      from (${check.sql}) as r`)
    const [row] = rows
    findings.push({
      check,
      examined: Number(row?.examined),
      violations: Number(row?.violations),
      samples: row?.samples ?? [],
    })
  }
  await pool.query(FORGET_PRUNED)
  return findings
}

// Keys stay under watch in later rounds too, until their finished job is pruned.
const NOTE_ACKNOWLEDGED = `
  insert into soak.acknowledged (key)
  select distinct e.key from soak.enqueues as e where e.outcome in ('acknowledged', 'committed')
  on conflict do nothing`

const FORGET_PRUNED = `
  delete from soak.acknowledged as a
  using soak.steps as s
  where s.key = a.key and s.verb = 'prune'
    and not exists (select from tidegate.jobs as j where j.idempotency_key = a.key)`
