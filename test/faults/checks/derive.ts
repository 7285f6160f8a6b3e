/**
 * What the audit says, in the words of DESIGN section 4. Built anew before every check.
 *
 * - `soak.steps`: one row per transition of a job. `verb` is `enqueue`, `claim`, `settle`, `reap` (a settle that
 *   took the lease's token away), `mark`, `cancel`, `requeue`, `prune`, or `forbidden` for any other change. `kind`
 *   is what a settle or reap did. `life` counts enqueue and requeues, `charged` the claims less the refunds of
 *   that life so far.
 * - `soak.leases`: one row per claim, with how its lease ended and which tick of which process had asked for it.
 * - `soak.runs`: one row per entered handler, with its lease.
 * - `soak.calm_ticks`: ticks that ended in good order and whose process nobody stopped meanwhile.
 */
export const DERIVE = `
  drop table if exists soak.calm_ticks, soak.runs, soak.leases, soak.steps;

  create table soak.steps as
  with named as (
    select
      a.seq, a.txid, a.at, a.now, a.role, a.id,
      coalesce((a.after).type, (a.before).type) as type,
      coalesce((a.after).idempotency_key, (a.before).idempotency_key) as key,
      (a.before).status as was,
      (a.after).status as became,
      a.before,
      a.after,
      case
        when a.op = 'INSERT' and (a.after).status = 'pending' then 'enqueue'
        when a.op = 'DELETE' then 'prune'
        when (a.before).status = 'pending' and (a.after).status = 'running' then 'claim'
        when (a.before).status = 'pending' and (a.after).status = 'cancelled' then 'cancel'
        when (a.before).status in ('dead', 'cancelled') and (a.after).status = 'pending' then 'requeue'
        when (a.before).status = 'running' and (a.after).status = 'running' then 'mark'
        when (a.before).status = 'running' and (a.after).lease_token is distinct from (a.before).lease_token then 'reap'
        when (a.before).status = 'running' then 'settle'
        else 'forbidden'
      end as verb
    from soak.audit as a
  ),
  told as (
    select
      n.*,
      case
        when n.verb not in ('settle', 'reap') then null
        when n.became = 'completed' then 'complete'
        when n.became = 'dead' then 'dead'
        when (n.after).attempts = (n.before).attempts then 'retry'
        when (n.after).available_at is distinct from (n.before).available_at then 'snooze'
        else 'release'
      end as kind,
      (n.after).history is distinct from (n.before).history as remembered,
      count(*) filter (where n.verb in ('enqueue', 'requeue')) over (partition by n.id order by n.seq) as life
    from named as n
  )
  select
    t.*,
    coalesce(sum(case when t.verb = 'claim' then 1 when t.kind in ('snooze', 'release') then -1 else 0 end)
      over (partition by t.id, t.life order by t.seq), 0) as charged
  from told as t;

  create unique index on soak.steps (seq);
  create index on soak.steps (id, seq);
  create index on soak.steps (key);
  create index on soak.steps (verb);

  create table soak.leases as
  with askers as (select distinct c.token, c.tick, c.worker from soak.claims as c),
  chained as (
    select
      s.seq, s.id, s.type, s.verb, s.life,
      (s.after).lease_token as token,
      s.at as claimed_at,
      pg_xact_commit_timestamp(s.txid::xid) as committed_at,
      (s.after).available_at as available_at,
      (s.after).lease_until as lease_until,
      (s.before).suspect as suspect,
      lead(s.verb) over (partition by s.id order by s.seq) as end_verb,
      lead(s.seq) over (partition by s.id order by s.seq) as end_seq,
      lead(s.txid) over (partition by s.id order by s.seq) as end_txid,
      lead(s.at) over (partition by s.id order by s.seq) as end_at,
      lead(s.kind) over (partition by s.id order by s.seq) as end_kind,
      lead(s.became) over (partition by s.id order by s.seq) as became
    from soak.steps as s
    where s.verb in ('claim', 'settle', 'reap')
  )
  select c.*, a.tick, a.worker from chained as c left join askers as a on a.token = c.token where c.verb = 'claim';

  create index on soak.leases (id, token);
  create index on soak.leases (tick);

  create table soak.runs as
  select
    r.run, r.job, r.token, r.tick, r.worker, r.environment, r.behaviour, r.follow_ups, r.at as start_at,
    e.at as end_at, e.how, l.seq, l.life, l.available_at, l.lease_until, l.suspect, l.end_verb, l.end_kind
  from soak.starts as r
  left join soak.ends as e on e.run = r.run
  left join soak.leases as l on l.id = r.job and l.token = r.token;

  create index on soak.runs (seq);
  create index on soak.runs (job, token);
  create index on soak.runs (tick);

  create table soak.calm_ticks as
  select t.tick
  from soak.ticks as t
  where t.stopped in ('empty', 'deadline', 'limit')
    and not exists (
      select from soak.stops as s
      where s.worker = t.worker and s.began_at < t.ended_at and s.ended_at > t.started_at
    );

  analyze soak.steps, soak.leases, soak.runs, soak.enqueues, soak.ticks;`
