import type { EnqueueInput } from '../../src/store/enqueue.ts'
import type { Behaviour, Script } from './behaviours.ts'
import { between, pickWeighted, type Random } from './random.ts'

/** A job without its key. */
export type NewJob = Omit<EnqueueInput, 'idempotencyKey'>

interface Kind {
  readonly script: readonly Behaviour[]
  readonly type?: 'soak.slow' | 'soak.poison'
  readonly maxAttempts?: number
}

/** What is enqueued, and how often. Scripts end soon, so that a round can be drained. */
const KINDS: readonly (readonly [Kind, number])[] = [
  [{ script: ['ok'] }, 500],
  [{ script: ['slow'] }, 70],
  [{ script: ['slow'], type: 'soak.slow' }, 70],
  [{ script: ['odd'] }, 20],
  [{ script: ['big'] }, 5],
  [{ script: ['fail', 'ok'] }, 60],
  [{ script: ['fail', 'fail', 'slow'] }, 20],
  [{ script: ['fail'], maxAttempts: 2 }, 30],
  [{ script: ['permanent'] }, 25],
  [{ script: ['nul', 'ok'] }, 25],
  [{ script: ['unstorable', 'ok'] }, 20],
  [{ script: ['hang', 'ok'] }, 15],
  [{ script: ['overtime', 'slow'], type: 'soak.slow' }, 10],
  [{ script: ['overtime'], maxAttempts: 1 }, 5],
  [{ script: ['deaf', 'slow'] }, 8],
  [{ script: ['deaf'], maxAttempts: 1 }, 4],
  [{ script: ['snooze'] }, 40],
  [{ script: ['follow'] }, 50],
  [{ script: ['stray'] }, 25],
  [{ script: ['write'] }, 80],
  [{ script: ['kill'], type: 'soak.poison', maxAttempts: 2 }, 3],
  [{ script: ['kill', 'slow'], type: 'soak.poison' }, 3],
  [{ script: ['exit', 'ok'], type: 'soak.poison' }, 3],
]

/** A random job. */
export function nextJob(random: Random): NewJob {
  const { script, type = 'soak.quick', maxAttempts = 3 } = pickWeighted(random, KINDS)
  const payload: Script = {
    script,
    ms: between(random, 50, 500),
    ...(random() < 0.01 ? { ballast: 'x'.repeat(between(random, 1, 50_000)) } : {}),
  }
  return {
    type,
    payload: JSON.stringify(payload),
    maxAttempts,
    ...(random() < 0.2 ? { priority: between(random, -2, 2) } : {}),
    ...(random() < 0.2 ? { delayMs: between(random, 1, 4_000) } : {}),
  }
}
