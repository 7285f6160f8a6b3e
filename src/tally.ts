import type { Logger } from './log.ts'
import { isRecovery } from './settling.ts'
import type { Settle, Verdict } from './store/work.ts'

/** The counts of a tick's report that come from verdicts. */
export interface Counts {
  completed: number
  retried: number
  dead: number
  released: number
  snoozed: number
  cancelled: number
  lost: number
  reaped: number
}

/** Counts what settles came to, and logs it. */
export interface Tally {
  readonly counts: Readonly<Counts>
  readonly account: (settles: readonly Settle[], verdicts: ReadonlyMap<string, Verdict>) => void
}

/** Creates the tally of one tick. */
export function createTally(log: Logger): Tally {
  const counts: Counts = {
    completed: 0,
    retried: 0,
    dead: 0,
    released: 0,
    snoozed: 0,
    cancelled: 0,
    lost: 0,
    reaped: 0,
  }
  return {
    counts,
    account(settles, verdicts) {
      for (const settle of settles) {
        const verdict = verdicts.get(settle.id)
        if (verdict?.verdict === 'refused') log.error('settle refused', { job_id: settle.id })
        const fate = fateOf(settle, verdict)
        if (fate === undefined) continue
        if (isRecovery(settle)) counts.reaped += 1
        if (!isRecovery(settle) || fate !== 'retried') counts[fate] += 1
        logFate(log, settle, fate)
      }
    },
  }
}

type Fate = Exclude<keyof Counts, 'reaped'>

/**
 * What became of a settled run. A verdict of `already` is this tick's own earlier call whose answer was
 * lost, so it counts. Undefined for an expired lease that somebody else has settled first.
 */
function fateOf(settle: Settle, verdict: Verdict | undefined): Fate | undefined {
  if (verdict === undefined || verdict.verdict === 'lost' || verdict.verdict === 'refused') {
    return isRecovery(settle) ? undefined : 'lost'
  }
  if (verdict.status === 'cancelled') return 'cancelled'
  switch (settle.settlement.kind) {
    case 'complete':
      return 'completed'
    case 'retry':
      return 'retried'
    case 'dead':
      return 'dead'
    case 'release':
      return 'released'
    case 'snooze':
      return 'snoozed'
  }
}

function logFate(log: Logger, { id, type, attempt, settlement, durationMs }: Settle, fate: Fate): void {
  const level = fate === 'dead' || fate === 'lost' ? 'warn' : 'info'
  log[level](`job ${fate}`, {
    job_id: id,
    type,
    attempt,
    duration_ms: durationMs === undefined ? undefined : Math.round(durationMs),
    code: 'code' in settlement ? settlement.code : undefined,
    retry_in_ms: 'delayMs' in settlement ? settlement.delayMs : undefined,
  })
}
