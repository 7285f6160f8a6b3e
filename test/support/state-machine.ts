import type { Status } from '../../src/core/job.ts'
import type { Outcome } from '../../src/core/outcome.ts'

/** One job as the state machine keeps it. */
export interface ModelJob {
  readonly id: string
  readonly key: string
  readonly priority: number
  readonly maxAttempts: number
  status: Status
  attempts: number
  suspect: boolean
  /** A running job that was asked to cancel. */
  marked: boolean
  availableAt: Instant
  leaseUntil: Instant
  /** Until when a handler that had not returned may go on. */
  heldUntil: Instant
  finishedAt: Instant
  /** Of its last lease; whoever recovers an expired lease takes it over. */
  token: string
}

/** Its clock stands still within a minute: of two instants at one time, that of the later event is later. */
interface Instant {
  readonly ms: number
  readonly event: number
}

/** The states of DESIGN section 4 in plain TypeScript, to compare the store with. */
export interface StateMachine {
  /** In the order of their ids. */
  readonly jobs: () => readonly ModelJob[]
  readonly counters: () => ReadonlyMap<string, number>
  readonly nowMs: () => number
  readonly isDue: (job: ModelJob) => boolean
  readonly moveClock: (ms: number) => void
  readonly enqueue: (
    job: Pick<ModelJob, 'id' | 'key' | 'priority' | 'maxAttempts'>,
    delayMs: number,
  ) => 'created' | 'replayed'
  /** Answers the ids of what it leased, in the order of the claim. */
  readonly claim: (claim: {
    readonly token: string
    readonly limit: number
    readonly suspects: boolean
    readonly leaseMs: number
  }) => readonly string[]
  /** The ids of the expired leases, oldest first. */
  readonly expired: () => readonly string[]
  /** `delayMs` is what a retry waits. */
  readonly settle: (
    lease: { readonly id: string; readonly token: string },
    outcome: Outcome,
    by: { readonly tick: string; readonly delayMs: number },
  ) => 'settled' | 'already' | 'lost'
  readonly cancel: (id: string) => 'ok' | 'conflict'
  readonly requeue: (id: string) => 'ok' | 'conflict'
  /** Answers how many finished jobs it deleted. */
  readonly prune: (retainMs: number) => number
}

/** Creates a state machine without jobs. */
export function createStateMachine(): StateMachine {
  let jobs: ModelJob[] = []
  const counters = new Map<string, number>()
  let nowMs = 0
  let event = 0

  const count = (name: string, by = 1) => counters.set(name, (counters.get(name) ?? 0) + by)
  const later = (ms: number): Instant => ({ ms: nowMs + ms, event })
  const isDue = ({ status, availableAt }: ModelJob) => status === 'pending' && availableAt.ms <= nowMs
  const find = (id: string) => jobs.find((job) => job.id === id)

  /** The status after a run, and what the run does to attempts and due time. */
  const end = (job: ModelJob, outcome: Outcome, delayMs: number): Status => {
    const again = job.marked ? 'cancelled' : 'pending'
    switch (outcome.kind) {
      case 'succeeded':
        count('completed')
        return 'completed'
      case 'failed':
        count('failed')
        if (!outcome.returned) job.heldUntil = job.leaseUntil
        if (outcome.permanent || job.attempts >= job.maxAttempts) return 'dead'
        job.availableAt = outcome.returned ? later(delayMs) : latest(later(delayMs), job.leaseUntil)
        return again
      case 'snoozed':
        count('snoozed')
        job.attempts -= 1
        job.availableAt = later(outcome.delayMs)
        return again
      case 'interrupted':
        count('released')
        job.attempts -= 1
        return again
      case 'crashed':
        count('failed')
        count('reaped')
        job.availableAt = later(delayMs)
        return job.attempts >= job.maxAttempts && !job.marked ? 'dead' : again
    }
  }

  const finish = (job: ModelJob) => {
    job.finishedAt = later(0)
    if (job.status === 'cancelled') count('cancelled')
    if (job.status === 'dead') count('died')
  }

  return {
    jobs: () => jobs,
    counters: () => counters,
    nowMs: () => nowMs,
    isDue,
    moveClock(ms) {
      nowMs += ms
    },
    enqueue(job, delayMs) {
      event += 1
      if (jobs.some(({ key }) => key === job.key)) return 'replayed'
      const none = later(0)
      const fresh = { status: 'pending', attempts: 0, suspect: false, marked: false, token: '' } as const
      jobs.push({
        ...job,
        ...fresh,
        availableAt: later(delayMs),
        leaseUntil: none,
        heldUntil: none,
        finishedAt: none,
      })
      count('enqueued')
      return 'created'
    },
    claim({ token, limit, suspects, leaseMs }) {
      event += 1
      const leased = jobs
        .filter((job) => isDue(job) && job.suspect === suspects)
        .sort(suspects ? byDueTime : byPriority)
        .slice(0, limit)
      for (const job of leased) {
        job.status = 'running'
        job.attempts += 1
        job.token = token
        job.leaseUntil = later(leaseMs)
      }
      return leased.sort(byPriority).map(({ id }) => id)
    },
    expired: () =>
      jobs
        .filter(({ status, leaseUntil }) => status === 'running' && leaseUntil.ms <= nowMs)
        .sort((a, b) => compare(a.leaseUntil, b.leaseUntil))
        .map(({ id }) => id),
    settle({ id, token }, outcome, { tick, delayMs }) {
      event += 1
      const job = find(id)
      const crashed = outcome.kind === 'crashed'
      if (job?.status !== 'running' || job.token !== token) {
        if (job !== undefined && job.token === (crashed ? tick : token)) return 'already'
        if (!crashed) count('lease_lost')
        return 'lost'
      }
      job.status = end(job, outcome, delayMs)
      job.suspect = crashed || (outcome.kind === 'interrupted' && job.suspect)
      job.marked = false
      if (crashed) job.token = tick
      finish(job)
      return 'settled'
    },
    cancel(id) {
      event += 1
      const job = find(id)
      if (job?.status === 'running') job.marked = true
      else if (job?.status !== 'pending') return 'conflict'
      else {
        job.status = 'cancelled'
        finish(job)
      }
      return 'ok'
    },
    requeue(id) {
      event += 1
      const job = find(id)
      if (job?.status !== 'dead' && job?.status !== 'cancelled') return 'conflict'
      const availableAt = latest(later(0), job.heldUntil)
      Object.assign(job, { status: 'pending', attempts: 0, suspect: false, availableAt })
      count('requeued')
      return 'ok'
    },
    prune(retainMs) {
      const old = jobs.filter((job) => isFinished(job) && job.finishedAt.ms + retainMs < nowMs)
      jobs = jobs.filter((job) => !old.includes(job))
      if (old.length > 0) count('pruned', old.length)
      return old.length
    },
  }
}

function isFinished({ status }: ModelJob): boolean {
  return status === 'completed' || status === 'dead' || status === 'cancelled'
}

function compare(a: Instant, b: Instant): number {
  return a.ms - b.ms || a.event - b.event
}

function latest(a: Instant, b: Instant): Instant {
  return compare(a, b) > 0 ? a : b
}

// Sorting is stable, so jobs that are equal stay in the order of their ids.
function byDueTime(a: ModelJob, b: ModelJob): number {
  return compare(a.availableAt, b.availableAt)
}

function byPriority(a: ModelJob, b: ModelJob): number {
  return b.priority - a.priority || byDueTime(a, b)
}
