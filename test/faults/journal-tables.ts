/** An instant by the database's clock, RFC 3339. */
export type Instant = string

/** What became of an enqueue: of the one under way nothing is known until a second row says so. */
export type EnqueueOutcome = 'sent' | 'acknowledged' | 'failed' | 'unknown' | 'rolled back' | 'committed'

/** The rows of each journal, table by table. */
export interface JournalRows {
  /** A handler was entered. `worker` is one process, `tick` one call of `tick()`. */
  readonly starts: {
    readonly run: string
    readonly job: string
    readonly token: string | null
    readonly tick: string
    readonly worker: string
    readonly environment: string
    readonly behaviour: string
    readonly follow_ups: number
    readonly at: Instant
  }
  /** A handler returned or threw. One that was killed or never returns has no row. */
  readonly ends: { readonly run: string; readonly how: string; readonly at: Instant }
  /** A handler is about to end its own process. */
  readonly kills: { readonly run: string; readonly worker: string; readonly at: Instant }
  /** A claim is about to be sent. */
  readonly claims: { readonly token: string; readonly tick: string; readonly worker: string }
  /** A tick is about to ask what became of a claim whose answer was lost. */
  readonly recalls: { readonly token: string; readonly at: Instant }
  /** The database answered `settled` to a settle of this lease. */
  readonly verdicts: { readonly job: string; readonly token: string }
  /** A tick returned, or had not returned long after its deadline (`stopped` is then `hangs`). */
  readonly ticks: {
    readonly tick: string
    readonly worker: string
    readonly environment: string
    readonly started_at: Instant
    readonly ended_at: Instant
    /** From the deadline to the return, negative when it was early. */
    readonly late_ms: number
    /** The longest that the process was kept from running meanwhile. */
    readonly lag_ms: number
    readonly stopped: string
    readonly error: string | null
  }
  /** A producer sent a job under a key, or learned what became of it. */
  readonly enqueues: {
    readonly key: string
    readonly outcome: EnqueueOutcome
    readonly job: string | null
    /** The call that a `sent` row and its outcome belong to. */
    readonly call: string
    /** Whether it was one statement of a transaction of the caller's. */
    readonly transaction: boolean
  }
  /** A process ended. `how` is `code 0`, `signal SIGKILL`. */
  readonly exits: { readonly worker: string; readonly how: string; readonly last_words: string }
  readonly faults: { readonly kind: string; readonly at: Instant }
  /** A process was kept from running by SIGSTOP. */
  readonly stops: { readonly worker: string; readonly began_at: Instant; readonly ended_at: Instant }
  /** A fault held this job's row. */
  readonly locks: { readonly job: string; readonly began_at: Instant; readonly ended_at: Instant }
  /** What the server said of the workers' sessions. `phase` is `chaos` or, when all workers have ended, `after`. */
  readonly samples: {
    readonly at: Instant
    readonly phase: string
    readonly sessions: number
    readonly in_transaction: number
    readonly oldest_ms: number
  }
}

/** The tables that journals are moved into. */
export const JOURNAL_TABLES = `
  create table soak.starts (
    run uuid, job uuid, token uuid, tick uuid, worker text, environment text, behaviour text, follow_ups integer,
    at timestamptz
  );
  create index on soak.starts (job, token);
  create index on soak.starts (tick);
  create table soak.ends (run uuid, how text, at timestamptz);
  create index on soak.ends (run);
  create table soak.kills (run uuid, worker text, at timestamptz);
  create table soak.claims (token uuid, tick uuid, worker text);
  create index on soak.claims (token);
  create table soak.recalls (token uuid, at timestamptz);
  create table soak.verdicts (job uuid, token uuid);
  create table soak.ticks (
    tick uuid, worker text, environment text, started_at timestamptz, ended_at timestamptz,
    late_ms double precision, lag_ms double precision, stopped text, error text
  );
  create table soak.enqueues (key text, outcome text, job uuid, call uuid, transaction boolean);
  create index on soak.enqueues (key);
  create table soak.exits (worker text, how text, last_words text);
  create table soak.faults (kind text, at timestamptz);
  create table soak.stops (worker text, began_at timestamptz, ended_at timestamptz);
  create table soak.locks (job uuid, began_at timestamptz, ended_at timestamptz);
  create index on soak.locks (job);
  create table soak.samples (
    at timestamptz, phase text, sessions integer, in_transaction integer, oldest_ms double precision
  );`
