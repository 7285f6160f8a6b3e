import type { StandardSchemaV1 } from '@standard-schema/spec'

import { DEFAULT_BACKOFF, type Backoff } from './core/backoff.ts'
import { DEFAULT_MAX_ATTEMPTS, LIMITS, type Json } from './core/job.ts'
import type { Sql } from './db/sql.ts'
import { durationMs, type Duration } from './duration.ts'
import type { Snooze } from './errors.ts'
import type { Logger } from './log.ts'

/** What a handler is given beside its payload. */
export interface JobContext<Env = unknown> {
  /** The job's id, the same at every attempt: deduplicate outside effects with it. */
  readonly id: string
  /** A fresh id of this run; attempt numbers repeat after a release. */
  readonly run: string
  readonly type: string
  /** The number of this attempt, from 1. */
  readonly attempt: number
  readonly maxAttempts: number
  /** The W3C trace context that came with the enqueue. */
  readonly traceparent: string | null
  /** Aborts when the time of the job is up, the tick has to stop, or the job was cancelled. */
  readonly signal: AbortSignal
  /** Milliseconds until {@link signal} aborts for time. */
  readonly remainingMs: () => number
  /** The platform's bindings. */
  readonly env: Env
  /** `fetch`, with its requests counted against the budget of the tick (TICK_MAX_SUBREQUESTS). */
  readonly fetch: typeof fetch
  /** Statements on a connection of the handlers' own, each committed by itself. */
  readonly sql: Sql
  /** Logs with the job's ids attached. */
  readonly log: Logger
  /**
   * Collects a job that is inserted in the statement that completes this run: all of them or none, once,
   * and nothing when the run fails or has lost its lease. Its key is `<job id>:<n>`. Throws when the
   * payload is not acceptable.
   */
  readonly enqueue: EnqueueFollowUp
}

/** Collects a follow-up, by its definition or by the name of its type. */
export interface EnqueueFollowUp {
  <Schema extends StandardSchemaV1>(
    job: { readonly type: string; readonly payload: Schema },
    payload: StandardSchemaV1.InferInput<Schema>,
    options?: FollowUpOptions,
  ): void
  (job: string, payload: Json, options?: FollowUpOptions): void
}

/** Settings of a follow-up job. */
export interface FollowUpOptions {
  readonly priority?: number
  readonly delaySeconds?: number
  readonly maxAttempts?: number
}

/** What a handler may return: nothing, a JSON value that is kept as the job's result, or `snooze(…)`. */
export type HandlerResult = Json | Snooze | undefined | void

/** One type of job: its name, the shape of its payload, its limits and its handler. */
export interface JobDefinition<
  Type extends string = string,
  Schema extends StandardSchemaV1 = StandardSchemaV1,
  Env = never,
> {
  readonly type: Type
  /** Any Standard Schema (https://standardschema.dev). Its input is what is enqueued, its output what `run` gets. */
  readonly payload: Schema
  /** The longest that one run may take. Defaults to the setting DEFAULT_TIMEOUT_MS. */
  readonly timeout?: Duration
  /** Runs before the job is dead, 1…100. Defaults to the setting DEFAULT_MAX_ATTEMPTS. */
  readonly maxAttempts?: number
  /** Defaults to the settings BASE_BACKOFF_MS, BACKOFF_FACTOR and MAX_BACKOFF_MS. */
  readonly backoff?: Backoff
  /** Does the work. Whatever it throws is a failure of this attempt. */
  run(
    payload: StandardSchemaV1.InferOutput<Schema>,
    context: JobContext<Env>,
  ): Promise<HandlerResult> | HandlerResult
}

/**
 * Defines a job type. The schema gives the payload's type to `run` and to every enqueue.
 *
 * @example
 * const welcome = defineJob({
 *   type: 'mail.welcome',
 *   payload: z.object({ userId: z.string(), email: z.email() }),
 *   timeout: '10s',
 *   async run({ email }, { id, signal }) { await sendMail(email, { idempotencyKey: id, signal }) },
 * })
 */
export function defineJob<const Type extends string, Schema extends StandardSchemaV1, Env = unknown>(
  definition: JobDefinition<Type, Schema, Env>,
): JobDefinition<Type, Schema, Env> {
  return definition
}

/** A job definition with every default filled in. */
export interface RegisteredJob {
  readonly type: string
  readonly payload: StandardSchemaV1
  readonly timeoutMs: number
  readonly maxAttempts: number
  readonly backoff: Backoff
  readonly run: (payload: unknown, context: JobContext) => Promise<HandlerResult> | HandlerResult
}

/** The types of one root, by name. */
export type Registry = ReadonlyMap<string, RegisteredJob>

/** What a definition that names no limits gets, and the time that one tick offers to a handler. */
export interface RegistryDefaults {
  readonly timeoutMs: number
  readonly maxAttempts: number
  readonly backoff: Backoff
  /** The longest window of any tick of this root, and the part of it that is kept for settling. */
  readonly windowMs: number
  readonly reserveMs: number
}

/** Defaults of a root without settings. */
export const REGISTRY_DEFAULTS: RegistryDefaults = {
  timeoutMs: 10_000,
  maxAttempts: DEFAULT_MAX_ATTEMPTS,
  backoff: DEFAULT_BACKOFF,
  windowMs: 50_000,
  reserveMs: 5_000,
}

/** Any definition, whatever its payload and environment. */
// `never` in the handler's parameters lets every definition in; the registry alone calls them, after the schema.
export type AnyJob = Omit<JobDefinition, 'run'> & {
  run(payload: never, context: never): Promise<HandlerResult> | HandlerResult
}

/**
 * Collects the types of a root. Throws on a type that is defined twice, on limits out of bounds, and on a
 * timeout that could never fit into a tick.
 */
export function createRegistry(
  jobs: readonly AnyJob[],
  defaults: RegistryDefaults = REGISTRY_DEFAULTS,
): Registry {
  const registry = new Map<string, RegisteredJob>()
  for (const job of jobs) {
    if (registry.has(job.type)) throw new Error(`job type ${JSON.stringify(job.type)} is defined twice`)
    registry.set(job.type, register(job, defaults))
  }
  return registry
}

/** Milliseconds that a tick must have left to admit a job of this timeout: time to run, and to see it return. */
export function admissionMs(timeoutMs: number): number {
  return timeoutMs + RETURN_GRACE_MS
}

/** How long a handler may take to return after its signal has aborted, before it counts as not returned. */
export const RETURN_GRACE_MS = 250

function register(job: AnyJob, defaults: RegistryDefaults): RegisteredJob {
  if (!LIMITS.typePattern.test(job.type)) {
    throw new Error(
      `expected a job type of the form ${LIMITS.typePattern.source}, got ${JSON.stringify(job.type)}`,
    )
  }
  const maxAttempts = job.maxAttempts ?? defaults.maxAttempts
  if (!Number.isInteger(maxAttempts) || maxAttempts < 1 || maxAttempts > LIMITS.maxAttempts) {
    throw new Error(
      `job type ${job.type}: expected maxAttempts from 1 to ${LIMITS.maxAttempts}, got ${maxAttempts}`,
    )
  }
  const { backoff = defaults.backoff } = job
  if ('delaysMs' in backoff && (backoff.delaysMs.length === 0 || backoff.delaysMs.some((ms) => !(ms >= 0)))) {
    throw new Error(
      `job type ${job.type}: expected a backoff list of delays in milliseconds, got [${backoff.delaysMs.join(', ')}]`,
    )
  }
  const timeoutMs = durationMs(job.timeout ?? defaults.timeoutMs)
  const needed = admissionMs(timeoutMs) + defaults.reserveMs
  if (needed > defaults.windowMs) {
    throw new Error(
      `job type ${job.type}: a timeout of ${timeoutMs} ms never fits into a window of ${defaults.windowMs} ms, ` +
        `of which ${defaults.reserveMs} ms are kept for settling; it needs TICK_WINDOW_MS of at least ${needed}`,
    )
  }
  return {
    type: job.type,
    payload: job.payload,
    timeoutMs,
    maxAttempts,
    backoff,
    run: job.run.bind(job) as RegisteredJob['run'],
  }
}
