import { LIMITS, storableText, type Json } from './core/job.ts'
import type { Outcome } from './core/outcome.ts'
import type { Budget } from './budget.ts'
import type { Sql } from './db/sql.ts'
import { PermanentError, RetryAfterError, Snooze } from './errors.ts'
import { collectFollowUps } from './follow-ups.ts'
import type { Logger } from './log.ts'
import {
  RETURN_GRACE_MS,
  type HandlerResult,
  type JobContext,
  type RegisteredJob,
  type Registry,
} from './registry.ts'
import type { FollowUp, LeasedJob } from './store/work.ts'

/** What every run of a tick shares. */
export interface RunEnvironment {
  readonly registry: Registry
  readonly env: unknown
  readonly budget: Budget
  /** The handlers' own way to the database. */
  readonly sql: Sql
  readonly log: Logger
  /** Milliseconds on a monotonic clock. */
  readonly clock: () => number
}

/** What one run came to. */
export interface Run {
  /** Undefined when the handler has not returned after an interruption: its lease must run out. */
  readonly outcome: Outcome | undefined
  readonly durationMs: number
  /** Jobs to insert with the completion. */
  readonly followUps: readonly FollowUp[]
}

/**
 * Runs one leased job: parse, check against the schema, call the handler, wait no longer than its timeout.
 * Never rejects and never takes longer than the timeout and {@link RETURN_GRACE_MS}, whatever the handler
 * does. `stop` interrupts it: a cancel, a lost lease, or the end of the tick.
 */
export async function run(
  leased: LeasedJob,
  job: RegisteredJob,
  environment: RunEnvironment,
  stop: AbortSignal,
): Promise<Run> {
  const startedAt = environment.clock()
  if (stop.aborted) return { outcome: { kind: 'interrupted', entered: false }, durationMs: 0, followUps: [] }

  const limit = limitTime(job.timeoutMs, stop)
  const followUps = collectFollowUps(environment.registry)
  const requests = environment.budget.forRun()
  const context: JobContext = {
    id: leased.id,
    run: crypto.randomUUID(),
    type: leased.type,
    attempt: leased.attempt,
    maxAttempts: leased.maxAttempts,
    traceparent: leased.traceparent,
    signal: limit.signal,
    remainingMs: () => Math.max(0, startedAt + job.timeoutMs - environment.clock()),
    env: environment.env,
    fetch: requests.fetch,
    sql: environment.sql,
    log: environment.log.with({ job_id: leased.id, type: leased.type, attempt: leased.attempt }),
    enqueue: followUps.enqueue,
  }

  const returned = await Promise.race([handle(leased, job, context, followUps.check), limit.over])
  limit.clear()
  return {
    outcome: interpret(
      returned,
      limit.reason() ?? (requests.ranOut() ? 'stopped' : undefined),
      job.timeoutMs,
    ),
    durationMs: environment.clock() - startedAt,
    followUps: returned?.kind === 'succeeded' ? followUps.collected() : [],
  }
}

/** The run's outcome by what the handler did (undefined: nothing yet) and what had interrupted it. */
function interpret(returned: Outcome | undefined, reason: StopCause, timeoutMs: number): Outcome | undefined {
  // A success counts even after the signal: the effect has happened.
  if (returned !== undefined && (reason === undefined || returned.kind !== 'failed')) return returned
  if (reason === 'stopped') return returned && { kind: 'interrupted', entered: true }
  return {
    kind: 'failed',
    error: `the handler did not finish within its timeout of ${timeoutMs} ms`,
    code: 'timeout',
    permanent: false,
    returned: returned !== undefined,
  }
}

/** From payload text to outcome. Never rejects. */
async function handle(
  leased: LeasedJob,
  job: RegisteredJob,
  context: JobContext,
  checkFollowUps: () => Promise<void>,
): Promise<Outcome> {
  try {
    const checked = await job.payload['~standard'].validate(JSON.parse(leased.payload))
    if (checked.issues !== undefined) return payloadInvalid(checked.issues)
    const result = await job.run(checked.value, context)
    if (result instanceof Snooze) return { kind: 'snoozed', delayMs: result.delayMs }
    await checkFollowUps()
    return succeeded(result, context.log)
  } catch (error) {
    return failed(error)
  }
}

type SchemaIssue = {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

function payloadInvalid(issues: readonly SchemaIssue[]): Outcome {
  const places = issues.slice(0, 10).map(({ path, message }) => `${pathText(path)}: ${message}`)
  return {
    kind: 'failed',
    error: `the payload does not match the schema of this deployment: ${places.join('; ')}`,
    code: 'payload_invalid',
    permanent: false,
    returned: true,
  }
}

/** The dotted path of a schema's issue, from `payload`. */
function pathText(path: SchemaIssue['path']): string {
  return ['payload', ...(path ?? []).map((step) => String(typeof step === 'object' ? step.key : step))].join(
    '.',
  )
}

/** A success keeps what JSON can carry of its result; the rest is dropped, for the effect has happened. */
function succeeded(result: Exclude<HandlerResult, Snooze>, log: Logger): Outcome {
  const text = resultText(result ?? undefined)
  if (text === undefined) return { kind: 'succeeded' }
  if (text !== null && text.length <= LIMITS.resultBytes) return { kind: 'succeeded', result: text }
  log.warn('result dropped', { reason: text === null ? 'not JSON' : `over ${LIMITS.resultBytes} characters` })
  return { kind: 'succeeded' }
}

function resultText(result: Json | undefined): string | undefined | null {
  try {
    return JSON.stringify(result, (_key, value: unknown) =>
      typeof value === 'string' ? storableText(value, Infinity) : value,
    )
  } catch {
    return null
  }
}

function failed(error: unknown): Outcome {
  return {
    kind: 'failed',
    error: describe(error),
    permanent: error instanceof PermanentError,
    returned: true,
    ...(error instanceof RetryAfterError ? { retryAfterMs: error.retryAfterMs } : {}),
  }
}

const OWN_NAMES = new Set(['Error', 'PermanentError', 'RetryAfterError', 'InvalidInput'])

/** The text of whatever was thrown. Errors may have getters that throw, and need not be errors. */
function describe(error: unknown): string {
  try {
    if (!(error instanceof Error))
      return typeof error === 'string' ? error : `threw ${JSON.stringify(error) ?? String(error)}`
    return OWN_NAMES.has(error.name) ? error.message : `${error.name}: ${error.message}`
  } catch {
    return 'threw something that cannot be described'
  }
}

type StopCause = 'timeout' | 'stopped' | undefined

interface TimeLimit {
  readonly signal: AbortSignal
  /** Resolves when the handler had its signal and the grace after it. */
  readonly over: Promise<undefined>
  readonly reason: () => StopCause
  readonly clear: () => void
}

/** A signal that aborts after `timeoutMs`, or with `stop`. */
function limitTime(timeoutMs: number, stop: AbortSignal): TimeLimit {
  const controller = new AbortController()
  const over = Promise.withResolvers<undefined>()
  let cause: StopCause
  let grace: ReturnType<typeof setTimeout> | undefined
  const abort = (why: StopCause, reason: unknown) => {
    if (cause !== undefined) return
    cause = why
    grace = setTimeout(() => over.resolve(undefined), RETURN_GRACE_MS)
    controller.abort(reason)
  }
  const timer = setTimeout(
    () => abort('timeout', new DOMException(`timeout of ${timeoutMs} ms`, 'TimeoutError')),
    timeoutMs,
  )
  const onStop = () => abort('stopped', stop.reason)
  stop.addEventListener('abort', onStop)
  return {
    signal: controller.signal,
    over: over.promise,
    reason: () => cause,
    clear() {
      clearTimeout(timer)
      clearTimeout(grace)
      stop.removeEventListener('abort', onStop)
    },
  }
}
