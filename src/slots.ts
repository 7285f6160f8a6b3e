import { run, type Run, type RunEnvironment } from './run.ts'
import type { RegisteredJob } from './registry.ts'
import type { LeasedJob } from './store/work.ts'

/** A run that has ended, or whose handler did not return in time. */
export interface Ended extends Run {
  readonly leased: LeasedJob
  readonly job: RegisteredJob
}

/** The runs under way in one tick. */
export interface Slots {
  readonly start: (leased: LeasedJob, job: RegisteredJob) => void
  readonly size: () => number
  readonly held: () => readonly LeasedJob[]
  /** Aborts one run, or all of them. */
  readonly stop: (reason: string, id?: string) => void
  /** Takes what has ended since the last call. */
  readonly takeEnded: () => readonly Ended[]
  /** Resolves when something has ended or `wake` was called since the last call, at the latest after `limitMs`. */
  readonly change: (limitMs: number) => Promise<void>
  /** Resolves when nothing is under way any more, at the latest after `limitMs`. */
  readonly idle: (limitMs: number) => Promise<void>
  readonly wake: () => void
}

/** Creates the slots of one tick. */
export function createSlots(environment: RunEnvironment): Slots {
  const running = new Map<string, { readonly leased: LeasedJob; readonly stop: AbortController }>()
  let ended: Ended[] = []
  let changed = Promise.withResolvers<void>()
  let emptied = Promise.withResolvers<void>()

  const finish = (leased: LeasedJob, job: RegisteredJob, result: Run) => {
    running.delete(leased.token + leased.id)
    ended.push({ ...result, leased, job })
    changed.resolve()
    if (running.size === 0) emptied.resolve()
  }

  return {
    start(leased, job) {
      const stop = new AbortController()
      running.set(leased.token + leased.id, { leased, stop })
      void run(leased, job, environment, stop.signal).then((result) => finish(leased, job, result))
    },
    size: () => running.size,
    held: () => [...running.values()].map(({ leased }) => leased),
    stop(reason, id) {
      for (const { leased, stop } of running.values()) {
        if (id === undefined || leased.id === id) stop.abort(new DOMException(reason, 'AbortError'))
      }
    },
    takeEnded() {
      const taken = ended
      ended = []
      return taken
    },
    async change(limitMs) {
      await atMost(changed.promise, limitMs)
      changed = Promise.withResolvers()
    },
    async idle(limitMs) {
      if (running.size === 0) return
      emptied = Promise.withResolvers()
      await atMost(emptied.promise, limitMs)
    },
    wake: () => changed.resolve(),
  }
}

async function atMost(event: Promise<void>, limitMs: number): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const limit = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, Math.max(0, limitMs))
  })
  await Promise.race([event, limit])
  clearTimeout(timer)
}
