/**
 * What became of one run. A closed set: whatever a handler does – return, throw, hang, break – is one of these.
 *
 * - `succeeded`: it returned. `result` is its return value as JSON text, if it had one that JSON can carry.
 * - `failed`: it threw, rejected or ran out of time. `permanent` failures are not retried. `returned` is
 *   false while the handler may still be running. `retryAfterMs` is the least delay that the outside asked for.
 * - `snoozed`: it asked to run again later; that costs no attempt.
 * - `interrupted`: it was never entered (`entered: false`), or returned after the tick had to stop.
 * - `crashed`: nobody settled it before its lease ended.
 */
export type Outcome =
  | { readonly kind: 'succeeded'; readonly result?: string }
  | {
      readonly kind: 'failed'
      readonly error: string
      readonly code?: FailureCode
      readonly permanent: boolean
      readonly returned: boolean
      readonly retryAfterMs?: number
    }
  | { readonly kind: 'snoozed'; readonly delayMs: number }
  | { readonly kind: 'interrupted'; readonly entered: boolean }
  | { readonly kind: 'crashed' }

/** Why a run failed, where it is more than an error that the handler threw. */
export type FailureCode = 'timeout' | 'payload_invalid' | 'crashed'

/** What a settle writes for one run: {@link Outcome} after policy. Delays are durations, never instants. */
export type Settlement =
  | { readonly kind: 'complete'; readonly result?: string }
  | {
      readonly kind: 'retry'
      readonly delayMs: number
      readonly error: string
      readonly outcome: FailedOutcome
      readonly code?: FailureCode
      /** The handler may still be running, so the retry is not due before the lease ends. */
      readonly held: boolean
      readonly crashed: boolean
    }
  | {
      readonly kind: 'dead'
      /** The handler may still be running, so a requeue is not due before the lease ends. */
      readonly held: boolean
      readonly error: string
      readonly outcome: FailedOutcome
      readonly code?: FailureCode
      readonly crashed: boolean
    }
  | { readonly kind: 'snooze'; readonly delayMs: number; readonly outcome: 'snoozed' }
  | { readonly kind: 'release'; readonly outcome?: 'interrupted' }

/** The words under which a run that did not succeed stands in a job's history. */
export type FailedOutcome = 'failed' | 'timed_out' | 'crashed'
