import { LIMITS } from './core/job.ts'
import { InvalidInput, payloadText } from './payload.ts'
import type { EnqueueFollowUp, FollowUpOptions, RegisteredJob, Registry } from './registry.ts'
import type { FollowUp } from './store/work.ts'

/** Jobs that a run has asked for, to be inserted with its completion. */
export interface FollowUps {
  readonly enqueue: EnqueueFollowUp
  readonly collected: () => readonly FollowUp[]
  /** Rejects when a schema that answers asynchronously refused a payload. */
  readonly check: () => Promise<void>
}

const MOST = 1_000

/** Collects follow-ups. `enqueue` throws {@link InvalidInput} at once for what it can see to be wrong. */
export function collectFollowUps(registry: Registry): FollowUps {
  const jobs: FollowUp[] = []
  const checks: Promise<void>[] = []
  return {
    enqueue(job: string | { readonly type: string }, payload: unknown, options: FollowUpOptions = {}) {
      const type = typeof job === 'string' ? job : job.type
      if (jobs.length >= MOST)
        throw new InvalidInput([{ path: '', message: `expected at most ${MOST} follow-ups of one run` }])
      const check = checkSchema(registry.get(type), payload)
      // Without a handler a refusal would end a Node process before `check` is awaited.
      check?.catch(() => undefined)
      if (check !== undefined) checks.push(check)
      jobs.push(followUp(type, payload, options))
    },
    collected: () => jobs,
    async check() {
      await Promise.all(checks)
    },
  }
}

function followUp(type: string, payload: unknown, options: FollowUpOptions): FollowUp {
  const { priority, delaySeconds, maxAttempts } = options
  if (!LIMITS.typePattern.test(type))
    refuse('type', `expected ${LIMITS.typePattern.source}, got ${JSON.stringify(type)}`)
  within('priority', priority, -LIMITS.priority, LIMITS.priority)
  within('delaySeconds', delaySeconds, 0, LIMITS.delaySeconds)
  within('maxAttempts', maxAttempts, 1, LIMITS.maxAttempts)
  return {
    type,
    payload: payloadText(payload),
    ...(priority === undefined ? {} : { priority }),
    ...(delaySeconds === undefined ? {} : { delayMs: Math.round(delaySeconds * 1_000) }),
    ...(maxAttempts === undefined ? {} : { maxAttempts }),
  }
}

/** Checks a payload against its type's schema: throws at once where the schema answers at once. */
function checkSchema(job: RegisteredJob | undefined, payload: unknown): Promise<void> | undefined {
  const result = job?.payload['~standard'].validate(payload)
  if (result === undefined) return undefined
  if (result instanceof Promise) return result.then(({ issues }) => refuseIssues(issues))
  refuseIssues(result.issues)
  return undefined
}

function refuseIssues(issues: readonly { readonly message: string }[] | undefined): void {
  if (issues !== undefined) refuse('payload', issues.map((issue) => issue.message).join('; '))
}

function within(path: string, value: number | undefined, least: number, most: number): void {
  if (value === undefined) return
  const whole = path === 'delaySeconds' || Number.isInteger(value)
  if (!whole || !(value >= least && value <= most)) refuse(path, `expected ${least} to ${most}, got ${value}`)
}

function refuse(path: string, message: string): never {
  throw new InvalidInput([{ path, message }])
}
