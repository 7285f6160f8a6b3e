import type { Backoff } from './core/backoff.ts'
import { decide } from './core/decide.ts'
import type { Registry } from './registry.ts'
import type { Ended } from './slots.ts'
import type { LeasedJob, Lease, Settle } from './store/work.ts'

/** The settle of a run that has ended; undefined when its lease must run out because it has not returned. */
export function settleEnded(
  { leased, job, outcome, durationMs, followUps }: Ended,
  random: () => number,
): Settle | undefined {
  if (outcome === undefined) return undefined
  const entered = outcome.kind !== 'interrupted' || outcome.entered
  return {
    ...logged(leased),
    settlement: decide(leased, outcome, job.backoff, random),
    ...(entered ? { durationMs } : {}),
    ...(followUps.length > 0 ? { followUps } : {}),
  }
}

/** The settle of a job that was leased but not entered. */
export function settleUnentered(leased: LeasedJob): Settle {
  return { ...logged(leased), settlement: { kind: 'release' } }
}

/** The settle of a lease that ended before anybody settled it; of its type a root need not know anything. */
export function settleExpired(
  lease: Lease,
  registry: Registry,
  fallback: Backoff,
  random: () => number,
): Settle {
  const backoff = registry.get(lease.type)?.backoff ?? fallback
  return { ...logged(lease), settlement: decide(lease, { kind: 'crashed' }, backoff, random) }
}

/** Whether a settle gives its job back for a later run; the call that carries it claims nothing. */
export function isRelease({ settlement }: Settle): boolean {
  return settlement.kind === 'release'
}

/** Whether a settle recovers an expired lease. */
export function isRecovery({ settlement }: Settle): boolean {
  return 'crashed' in settlement && settlement.crashed
}

function logged({ id, token, type, attempt }: Lease): Pick<Settle, 'id' | 'token' | 'type' | 'attempt'> {
  return { id, token, type, attempt }
}
