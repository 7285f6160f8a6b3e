import { setTimeout as sleep } from 'node:timers/promises'

import type { Status } from '../../src/core/job.ts'
import { DatabaseError } from '../../src/db/errors.ts'
import type { Database, Sql } from '../../src/db/sql.ts'
import { cancel, requeue } from '../../src/store/operate.ts'
import { between, pickOne, type Random } from './random.ts'

/** Cancels and requeues jobs at random until it is told to end. What comes of it stands in the audit. */
export async function operate(
  database: Database,
  random: Random,
  recent: readonly { readonly job: string }[],
  isEnding: () => boolean,
): Promise<void> {
  while (!isEnding()) {
    try {
      await (random() < 0.5 ? cancelOne(database, random, recent) : requeueOne(database, random))
    } catch (error) {
      if (!(error instanceof DatabaseError)) throw error
    }
    await sleep(between(random, 50, 300))
  }
  await database.close()
}

/** A new job, which may be pending or done by now, or a leased one. */
async function cancelOne({ sql }: Database, random: Random, recent: readonly { readonly job: string }[]) {
  const leased = random() < 0.5 ? await jobsIn(sql, ['running']) : []
  const job = pickOne(random, leased) ?? pickOne(random, recent.slice(-10))?.job
  if (job !== undefined) await cancel(sql, job)
}

async function requeueOne({ sql }: Database, random: Random) {
  const job = pickOne(random, await jobsIn(sql, ['dead', 'cancelled']))
  if (job !== undefined) await requeue(sql, job, 'the soak')
}

async function jobsIn(sql: Sql, statuses: readonly Status[]): Promise<readonly string[]> {
  const rows = await sql(
    `select j.id::text as id
     from tidegate.jobs as j
     where j.status in (select jsonb_array_elements_text($1::jsonb)) and clock_timestamp() is not null
     order by j.updated_at desc
     limit 30`,
    [JSON.stringify(statuses)],
  )
  return rows.map(({ id }) => String(id))
}
