import type { Sql } from '../db/sql.ts'

/** Whose a copied database becomes, and what becomes of the jobs that came with it. */
export interface AdoptOptions {
  /** The TIDEGATE_ENV of the roots that may run its jobs from then on. */
  readonly environment: string
  /** Cancel what waits, and mark what runs, so that its recovery cancels it. */
  readonly cancelPending: boolean
  /** Jobs that one call changes at most. Defaults to 1 000. */
  readonly batch?: number
}

/** The environment of a database and, on Neon, its branch. */
export interface Owner {
  readonly environment: string
  readonly branchId: string | null
}

/** What an adoption came to. `ours`: the database was ours before, and nothing was changed. */
export interface Adopted {
  readonly outcome: 'adopted' | 'ours'
  readonly from: Owner
  readonly to: Owner
  /** Pending jobs that were cancelled. */
  readonly cancelled: number
  /** Running jobs that were marked. Their leases are the origin's: nobody here settles them, they run out. */
  readonly marked: number
}

/**
 * Takes a copied database over (G11): from then on it belongs to this environment, and to the branch that it
 * is on. Jobs are cancelled batch by batch before the owner changes, so no tick of ours can run them in
 * between; an adoption that was cut short is finished by a repetition. Without `cancelPending` pending jobs
 * run here, and so do the origin's running ones once their leases have ended.
 *
 * A database that is ours already stays as it is, jobs included, lest a wrong URL cancels real work.
 */
export async function adopt(
  sql: Sql,
  { environment, cancelPending, batch = 1_000 }: AdoptOptions,
): Promise<Adopted> {
  let cancelled = 0
  let marked = 0
  let from: Owner | undefined
  let after: string | null = null
  for (;;) {
    const step: AdoptRow = await adoptBatch(sql, [environment, cancelPending, batch, after])
    from ??= { environment: step.recorded_environment, branchId: step.recorded_branch_id }
    const done = { from, to: { environment, branchId: step.branch_id } }
    if (step.ours && after === null) return { outcome: 'ours', ...done, cancelled, marked }
    cancelled += step.cancelled
    marked += step.marked
    if (step.switched || step.ours) return { outcome: 'adopted', ...done, cancelled, marked }
    after = step.last
  }
}

async function adoptBatch(
  sql: Sql,
  params: readonly [string, boolean, number, string | null],
): Promise<AdoptRow> {
  const [row] = await sql(ADOPT, params)
  if (row === undefined) throw new Error('expected tidegate.meta to say whose the database is, got no row')
  return row as unknown as AdoptRow
}

interface AdoptRow {
  readonly ours: boolean
  readonly switched: boolean
  readonly recorded_environment: string
  readonly recorded_branch_id: string | null
  readonly branch_id: string | null
  readonly cancelled: number
  readonly marked: number
  readonly last: string | null
}

// One pass in the order of ids, in which every statement of ours locks jobs; `last` is where the next call
// goes on. The call that finds less than its limit has seen the end and changes the owner.
const ADOPT = `
  with owner as materialized (
    select
      m.environment,
      m.branch_id,
      m.environment = $1::text
        and m.branch_id is not distinct from current_setting('neon.branch_id', true) as ours
    from tidegate.meta as m
  ),
  picked as materialized (
    select j.id
    from tidegate.jobs as j
    where $2::boolean
      and (select not o.ours from owner as o)
      and ($4::uuid is null or j.id > $4::uuid)
      and (j.status = 'pending' or j.status = 'running' and j.cancel_requested_at is null)
    order by j.id
    limit $3::integer
    for no key update
  ),
  stopped as (
    update tidegate.jobs as j
    set
      status = case when j.status = 'pending' then 'cancelled' else j.status end,
      cancelled_at = case when j.status = 'pending' then tidegate.now() end,
      cancel_requested_at = tidegate.now(),
      updated_at = tidegate.now()
    where j.id = any (array(select p.id from picked as p))
    returning j.type, j.status
  ),
  counted as (
    insert into tidegate.counter_deltas (name, type, value)
    select 'jobs_cancelled_total', s.type, count(*)
    from stopped as s
    where s.status = 'cancelled'
    group by s.type
  ),
  switched as (
    update tidegate.meta as m
    set environment = $1::text, branch_id = current_setting('neon.branch_id', true)
    where not (select o.ours from owner as o)
      and (select count(*) from picked) < $3::integer
    returning m.environment
  )
  select
    o.ours,
    exists (select from switched) as switched,
    o.environment as recorded_environment,
    o.branch_id as recorded_branch_id,
    current_setting('neon.branch_id', true) as branch_id,
    (select count(*) from stopped as s where s.status = 'cancelled')::integer as cancelled,
    (select count(*) from stopped as s where s.status = 'running')::integer as marked,
    (select p.id from picked as p order by p.id desc limit 1)::text as last
  from owner as o
  where clock_timestamp() is not null`
