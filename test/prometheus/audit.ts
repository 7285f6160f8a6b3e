import type { TestDatabase } from '../support/database.ts'

/** A value that a counter must have, by the database's own history and not by its counters. */
export interface Expected {
  /** As Prometheus names it. */
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** What no row tells: how long runs took, and how many settles came too late. */
export interface Told {
  readonly durations: readonly { readonly id: string; readonly token: string; readonly us: number }[]
  readonly lost: number
}

/** Begins to write down every version of every job, in the transaction that makes it, and every failed push. */
export async function beginAudit(db: TestDatabase): Promise<void> {
  await db.query(`
    create schema audit;

    create table audit.versions (before tidegate.jobs, after tidegate.jobs);
    create function audit.note_version() returns trigger language plpgsql as $$
    begin
      insert into audit.versions (before, after)
      values (case when tg_op <> 'INSERT' then old end, case when tg_op <> 'DELETE' then new end);
      return null;
    end
    $$;
    create trigger audit_version after insert or update or delete on tidegate.jobs
    for each row execute function audit.note_version();

    create table audit.failed_pushes (sequence bigint);
    create function audit.note_push() returns trigger language plpgsql as $$
    begin
      insert into audit.failed_pushes (sequence) values (new.sequence);
      return null;
    end
    $$;
    create trigger audit_push after update on tidegate.push
    for each row when (new.failed_at is distinct from old.failed_at) execute function audit.note_push();

    create table audit.durations (id uuid, token uuid, us bigint, primary key (id, token));`)
}

/** What every counter must show now. Series that would be 0 are left out. */
export async function expectedCounters(db: TestDatabase, told: Told): Promise<readonly Expected[]> {
  await db.query(
    `insert into audit.durations (id, token, us)
     select d.id, d.token, d.us from jsonb_to_recordset($1) as d (id uuid, token uuid, us bigint)
     on conflict do nothing`,
    [JSON.stringify(told.durations)],
  )
  const rows = await db.query<{ name: string; labels: Record<string, string>; value: string }>(EXPECTED)
  const lost = { name: 'jobs_lease_lost_total', labels: {}, value: told.lost }
  return [...rows.map((row) => ({ ...row, value: Number(row.value) })), lost].filter(({ value }) => value > 0)
}

/** The transitions in the words of DESIGN section 4, then what each of them adds to. */
const EXPECTED = `
  with steps as (
    select
      coalesce((v.after).type, (v.before).type) as type,
      (v.before).status as was,
      (v.after).status as became,
      (v.before).id as id,
      (v.before).lease_token as token,
      (v.before).status = 'running' and (v.after).lease_token is distinct from (v.before).lease_token as reaped,
      (v.after).attempts < (v.before).attempts as refunded,
      (v.after).available_at is distinct from (v.before).available_at as moved,
      round(extract(epoch from (v.after).started_at - (v.after).available_at) * 1000000) as waited_us
    from audit.versions as v
  ),
  transitions (name, labels) as (
    select 'jobs_enqueued_total', jsonb_build_object('type', s.type) from steps as s where s.was is null
    union all
    select 'jobs_processed_total', jsonb_build_object('type', s.type, 'result', 'completed')
    from steps as s where s.became = 'completed'
    union all
    select 'jobs_processed_total', jsonb_build_object('type', s.type, 'result', 'failed')
    from steps as s
    where s.was = 'running' and s.became in ('pending', 'dead', 'cancelled') and not s.refunded
    union all
    select 'jobs_snoozed_total', jsonb_build_object('type', s.type)
    from steps as s where s.was = 'running' and s.refunded and s.moved
    union all
    select 'jobs_released_total', jsonb_build_object('type', s.type)
    from steps as s where s.was = 'running' and s.refunded and not s.moved
    union all
    select 'jobs_died_total', jsonb_build_object('type', s.type)
    from steps as s where s.became = 'dead' and s.was <> 'dead'
    union all
    select 'jobs_cancelled_total', jsonb_build_object('type', s.type)
    from steps as s where s.became = 'cancelled' and s.was <> 'cancelled'
    union all
    select 'jobs_requeued_total', jsonb_build_object('type', s.type)
    from steps as s where s.was in ('dead', 'cancelled') and s.became = 'pending'
    union all
    select 'jobs_reaped_total', jsonb_build_object('type', s.type) from steps as s where s.reaped
    union all
    select 'jobs_pruned_total', jsonb_build_object('status', s.was) from steps as s where s.became is null
    union all
    select 'ticks_total', jsonb_build_object('stopped', t.stopped) from tidegate.ticks as t
    union all
    select 'metrics_push_failures_total', '{}' from audit.failed_pushes
  ),
  observations (name, labels, us) as (
    select 'job_start_latency_seconds', jsonb_build_object('type', s.type), greatest(0, s.waited_us)
    from steps as s where s.was = 'pending' and s.became = 'running'
    union all
    select 'job_processing_duration_seconds', jsonb_build_object('type', s.type), d.us
    from steps as s
    join audit.durations as d on d.id = s.id and d.token = s.token
    where s.was = 'running' and s.became <> 'running' and not s.reaped
    union all
    select 'tick_duration_seconds', '{}', extract(epoch from t.ended_at - t.started_at) * 1000000
    from tidegate.ticks as t
  ),
  bounds (le) as (
    values ('0.1'), ('0.25'), ('0.5'), ('1'), ('2.5'), ('5'), ('10'), ('30'), ('60'), ('120'), ('300'), ('+Inf')
  )
  select t.name, t.labels, count(*) as value from transitions as t group by t.name, t.labels
  union all
  select o.name || '_bucket', o.labels || jsonb_build_object('le', b.le),
    count(*) filter (where o.us <= replace(b.le, '+Inf', 'Infinity')::numeric * 1000000)
  from observations as o cross join bounds as b
  group by o.name, o.labels, b.le
  union all
  select o.name || '_count', o.labels, count(*) from observations as o group by o.name, o.labels
  union all
  select o.name || '_sum', o.labels, sum(o.us) / 1000000 from observations as o group by o.name, o.labels`
