import { admissionMs, type Registry } from './registry.ts'
import type { StopReason } from './report.ts'
import type { Window } from './window.ts'

/** What a tick knows of the queue. */
export interface Backlog {
  claimed: number
  /** When, in the window, a claim last came back short; undefined after one that came back full. */
  drainedAtMs: number | undefined
  /** Whether the last plan had to leave types out for lack of time. */
  leftOut: boolean
  /** The type of the oldest suspect that is due. */
  suspectType: string | undefined
  /** Time that suspects have had in this window. */
  suspectMs: number
}

/** What a plan depends on. */
export interface Situation {
  readonly registry: Registry
  readonly window: Window
  readonly windowMs: number
  readonly backlog: Backlog
  readonly running: number
  readonly suspectRunning: boolean
  /** Whether this tick still holds leases that its next call does not settle. */
  readonly unsettled: boolean
  readonly concurrency: number
  readonly batch: number
  /** 0: no limit. */
  readonly maxJobs: number
}

/** What to lease next. */
export interface Plan {
  readonly limit: number
  readonly types: readonly string[]
  readonly suspects: boolean
  /** Types of which a suspect, should one be due, might not get its turn after this claim. */
  readonly yieldTo: readonly string[]
}

/** How long an empty answer is believed when nothing runs any more. */
const BELIEVED_MS = 1_000

/**
 * What to lease next, if anything: as many jobs as there are free slots, of the types that still fit. While
 * a suspect is due, ordinary jobs must end before its turn, which is as late as its timeout allows but not
 * in the first half of the window; it then runs alone. Suspects together get at most half of the window.
 */
export function nextClaim(situation: Situation): Plan | undefined {
  const { backlog, running, maxJobs, concurrency, batch } = situation
  const room = maxJobs === 0 ? batch : Math.min(batch, maxJobs - backlog.claimed)
  if (room <= 0 || situation.suspectRunning) return undefined

  const turn = suspectTurn(situation)
  const ordinary = turn?.first === true ? [] : fitting(situation, turn?.keepMs ?? 0)
  const limit = Math.min(room, concurrency - running)
  if (ordinary.length > 0 && !isDrained(situation)) {
    if (limit <= 0) return undefined
    return {
      limit,
      types: ordinary,
      suspects: false,
      yieldTo: backlog.suspectType === undefined ? endangered(situation, ordinary) : [],
    }
  }
  // A crash would charge every lease that is held beside it.
  if (turn === undefined || running > 0 || situation.unsettled) return undefined
  return { limit: 1, types: fitting(situation, 0), suspects: true, yieldTo: [] }
}

/** Why a tick stops when it was not told to. */
export function stopReason({ registry, backlog, maxJobs }: Situation): StopReason {
  if (maxJobs !== 0 && backlog.claimed >= maxJobs) return 'limit'
  const drained = backlog.drainedAtMs !== undefined && !backlog.leftOut && backlog.suspectType === undefined
  return drained || registry.size === 0 ? 'empty' : 'deadline'
}

interface SuspectTurn {
  /** Time to keep for it at the end of the window. */
  readonly keepMs: number
  /** It needs more than half of the window, so it runs before everything else. */
  readonly first: boolean
}

/** The turn of the suspect that is due; undefined when there is none, or it has no turn in this window any more. */
function suspectTurn({ registry, window, windowMs, backlog }: Situation): SuspectTurn | undefined {
  const suspect = backlog.suspectType === undefined ? undefined : registry.get(backlog.suspectType)
  if (suspect === undefined || backlog.suspectMs >= windowMs / 2 || !window.fits(suspect.timeoutMs))
    return undefined
  const keepMs = admissionMs(suspect.timeoutMs)
  return { keepMs, first: window.elapsedMs() + window.runningMs() - keepMs < windowMs / 2 }
}

/** Types that fit now, but perhaps no longer after a run of the longest of `claimed`. */
function endangered({ registry, window }: Situation, claimed: readonly string[]): readonly string[] {
  const longestMs = Math.max(...claimed.map((type) => registry.get(type)?.timeoutMs ?? 0))
  return [...registry.values()]
    .filter(({ timeoutMs }) => window.fits(timeoutMs) && !window.fits(timeoutMs, admissionMs(longestMs)))
    .map(({ type }) => type)
}

function fitting({ registry, window, backlog }: Situation, keepMs: number): readonly string[] {
  const jobs = [...registry.values()].filter(({ timeoutMs }) => window.fits(timeoutMs, keepMs))
  if (keepMs === 0) backlog.leftOut = jobs.length < registry.size
  return jobs.map(({ type }) => type)
}

function isDrained({ backlog, window, running }: Situation): boolean {
  if (backlog.drainedAtMs === undefined) return false
  return running > 0 ? false : window.elapsedMs() - backlog.drainedAtMs < BELIEVED_MS
}
