-- The tables of the queue. States are tied to their columns by CHECK constraints, so that no statement,
-- ours or an operator's, can leave a row that the tick would not understand.

create schema if not exists tidegate;

-- The only clock. Tests replace it in their own database; everything else leaves it alone.
create function tidegate.now() returns timestamptz
language sql stable parallel safe
return pg_catalog.now();

-- RFC 3339 in UTC with microseconds, the form in which every instant leaves the database.
create function tidegate.iso(instant timestamptz) returns text
language sql stable parallel safe
return to_char(instant at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');

-- UUID version 7 (RFC 9562): milliseconds, then twelve bits of the fraction, then random bits.
-- PostgreSQL 18 has it; older servers get the same from SQL.
do $$
begin
  if current_setting('server_version_num')::integer >= 180000 then
    execute 'create function tidegate.uuid7() returns uuid language sql volatile parallel safe return uuidv7()';
  else
    execute $f$
      create function tidegate.uuid7() returns uuid
      language sql volatile parallel safe
      as $body$
        select encode(
          substring(int8send(t.us / 1000) from 3)
            || int2send((28672 + t.us % 1000 * 4096 / 1000)::smallint)
            || substring(uuid_send(gen_random_uuid()) from 9),
          'hex')::uuid
        from (select (extract(epoch from clock_timestamp()) * 1000000)::bigint as us) as t
      $body$
    $f$;
  end if;
end
$$;

create table tidegate.jobs (
  id                  uuid        not null default tidegate.uuid7(),
  lease_token         uuid,
  available_at        timestamptz not null,
  lease_until         timestamptz,
  -- A handler that had not returned when its run was settled may go on until then.
  held_until          timestamptz,
  started_at          timestamptz,
  completed_at        timestamptz,
  died_at             timestamptz,
  cancelled_at        timestamptz,
  cancel_requested_at timestamptz,
  created_at          timestamptz not null,
  updated_at          timestamptz not null,
  refunds             integer     not null default 0,
  payload_bytes       integer     not null generated always as (octet_length(payload::text)) stored,
  priority            smallint    not null default 0,
  attempts            smallint    not null default 0,
  max_attempts        smallint    not null,
  suspect             boolean     not null default false,
  status              text        not null default 'pending',
  type                text        not null,
  idempotency_key     text        not null,
  concurrency_key     text,
  traceparent         text,
  -- json, not jsonb: stored as it was sent, and a third cheaper to insert.
  payload             json        not null,
  result              json,
  last_error          text,
  history             jsonb,
  requeues            jsonb,
  steps               jsonb,

  constraint jobs_pkey primary key (id),
  constraint jobs_idempotency_key unique (idempotency_key),
  constraint jobs_type_check check (type ~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$'),
  constraint jobs_idempotency_key_check check (char_length(idempotency_key) between 1 and 255),
  constraint jobs_priority_check check (priority between -100 and 100),
  constraint jobs_max_attempts_check check (max_attempts between 1 and 100),
  constraint jobs_attempts_check check (attempts between 0 and max_attempts),
  constraint jobs_payload_bytes_check check (payload_bytes <= 262144),
  constraint jobs_status_check check (status in ('pending', 'running', 'completed', 'dead', 'cancelled')),
  constraint jobs_pending_check check (status <> 'pending' or attempts < max_attempts),
  constraint jobs_running_check check (
    (status = 'running') = (lease_until is not null)
    and (status <> 'running' or (lease_token is not null and started_at is not null and attempts >= 1))
  ),
  constraint jobs_completed_check check ((status = 'completed') = (completed_at is not null)),
  constraint jobs_dead_check check ((status = 'dead') = (died_at is not null)),
  constraint jobs_cancelled_check check ((status = 'cancelled') = (cancelled_at is not null)),
  constraint jobs_cancel_requested_check check (cancel_requested_at is null or status <> 'pending')
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.02);

-- The order of the claim, led by type: what is paused, unknown, too long for the window or not yet due is
-- never walked. Suspects stay out of it, for they run alone.
create index jobs_due on tidegate.jobs (type, priority desc, available_at, id)
  where status = 'pending' and not suspect and concurrency_key is null;

create index jobs_due_suspect on tidegate.jobs (available_at, id) where status = 'pending' and suspect;

create index jobs_leased on tidegate.jobs (lease_until, id) where status = 'running';

create index jobs_completed on tidegate.jobs (completed_at) where status = 'completed';

-- Counting the dead by type reads this index alone.
create index jobs_dead on tidegate.jobs (died_at) include (type) where status = 'dead';

create index jobs_cancelled on tidegate.jobs (cancelled_at) where status = 'cancelled';

-- One row: whose database this is, and the switch that stops everything.
create table tidegate.meta (
  singleton   boolean     not null default true primary key check (singleton),
  environment text        not null check (environment <> ''),
  branch_id   text,
  paused_at   timestamptz
);

-- One row per job type that some root has registered; `paused_at` closes its gate.
create table tidegate.types (
  type          text        not null primary key,
  timeout_ms    integer     not null check (timeout_ms > 0),
  max_attempts  smallint    not null check (max_attempts between 1 and 100),
  paused_at     timestamptz,
  registered_at timestamptz not null,
  changed_at    timestamptz not null
);

-- Counters: totals, and the changes that no tick has folded into them yet. A transition inserts a change and
-- updates nothing, for an enqueue may sit in its caller's open transaction, where an updated row would
-- block or deadlock others.
create table tidegate.counters (
  name  text   not null,
  type  text   not null,
  label text   not null,
  value bigint not null,
  primary key (name, type, label)
);

create table tidegate.counter_deltas (
  value bigint not null,
  name  text   not null,
  type  text   not null default '',
  label text   not null default ''
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- The last ticks, for operators and for /readyz.
create table tidegate.ticks (
  id         uuid        not null primary key,
  started_at timestamptz not null,
  ended_at   timestamptz not null,
  stopped    text        not null,
  report     jsonb       not null
);

create index ticks_ended on tidegate.ticks (ended_at);

-- One row: who may push metrics to the gateway, and the number of the last snapshot.
create table tidegate.push (
  singleton   boolean     not null default true primary key check (singleton),
  sequence    bigint      not null default 0,
  lease_until timestamptz,
  pushed_at   timestamptz,
  failed_at   timestamptz,
  last_error  text
);

insert into tidegate.push default values;

-- One row: the kick under way, if any, and whether an enqueue has asked for another look since it began.
create table tidegate.kick (
  singleton   boolean     not null default true primary key check (singleton),
  token       uuid,
  lease_until timestamptz,
  wanted      boolean     not null default false
);

insert into tidegate.kick default values;
