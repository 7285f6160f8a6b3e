import { backoffMs, boundedDelayMs, type Backoff } from './backoff.ts'
import { storableText } from './job.ts'
import type { FailedOutcome, Outcome, Settlement } from './outcome.ts'

/** What the decision needs to know of a leased job. `attempt` counts the run that has just ended. */
export interface Attempt {
  readonly attempt: number
  readonly maxAttempts: number
}

/**
 * The whole policy of the queue: what one run's outcome means for its job. Pure and total; `random` (in
 * [0, 1)) feeds the jitter. The fence and the cancel mark are applied by the settle's SQL.
 */
export function decide(job: Attempt, outcome: Outcome, backoff: Backoff, random: () => number): Settlement {
  switch (outcome.kind) {
    case 'succeeded':
      return outcome.result === undefined
        ? { kind: 'complete' }
        : { kind: 'complete', result: outcome.result }
    case 'snoozed':
      return { kind: 'snooze', delayMs: boundedDelayMs(outcome.delayMs), outcome: 'snoozed' }
    case 'interrupted':
      return outcome.entered ? { kind: 'release', outcome: 'interrupted' } : { kind: 'release' }
    case 'crashed':
      return fail(job, CRASHED, backoff, random)
    case 'failed':
      return fail(job, outcome, backoff, random)
  }
}

type Failure = Extract<Outcome, { kind: 'failed' }>

const CRASHED: Failure = {
  kind: 'failed',
  error: 'the lease ended before the run was settled: its process died, was frozen or lost the database',
  code: 'crashed',
  permanent: false,
  returned: true,
}

function fail(job: Attempt, failure: Failure, backoff: Backoff, random: () => number): Settlement {
  const crashed = failure.code === 'crashed'
  const last = {
    error: storableText(failure.error),
    outcome: failedOutcome(failure),
    crashed,
    ...(failure.code === undefined ? {} : { code: failure.code }),
  }
  if (failure.permanent || job.attempt >= job.maxAttempts)
    return { kind: 'dead', held: !failure.returned, ...last }
  const delayMs = Math.max(backoffMs(job.attempt, backoff, random), boundedDelayMs(failure.retryAfterMs ?? 0))
  return { kind: 'retry', delayMs, held: !failure.returned, ...last }
}

function failedOutcome(failure: Failure): FailedOutcome {
  if (failure.code === 'crashed') return 'crashed'
  return failure.code === 'timeout' ? 'timed_out' : 'failed'
}
