import { nextClaim, stopReason, type Backlog, type Plan, type Situation } from './admission.ts'
import { createBudget } from './budget.ts'
import { createCaller, errorFields } from './caller.ts'
import { DatabaseError } from './db/errors.ts'
import type { Logger } from './log.ts'
import { RETURN_GRACE_MS } from './registry.ts'
import type { StopReason, TickReport } from './report.ts'
import { isRelease, settleEnded, settleExpired, settleUnentered } from './settling.ts'
import { createSlots } from './slots.ts'
import { close, type CloseAnswer } from './store/close.ts'
import { pushed } from './store/pushed.ts'
import {
  firstSettles,
  work,
  type Claim,
  type Settle,
  type WorkAnswer,
  type WorkRequest,
} from './store/work.ts'
import { createTally } from './tally.ts'
import type { TickDependencies, TickOptions } from './tick-options.ts'
import { openWindow } from './window.ts'
import { wrongDatabase } from './wrong-database.ts'

/** While handlers run, the tick asks at least this often which of them must stop. */
const ASK_EVERY_MS = 5_000

/** A settle waits for others that are about to end as long as a round trip takes, but not longer than this. */
const COMPANY_MS = 20

/** How long a kick that was cut off keeps others away beyond its window. */
const KICK_MARGIN_MS = 5_000

/** Expired leases that one call reports; finished jobs of a status that a tick deletes; changes that it folds. */
const EXPIRED = 500
const PRUNE = 1_000
const FOLD = 20_000

/**
 * Leases due jobs, runs them, settles them – again and again until nothing is left or nothing fits – and
 * returns before its deadline. A failing job or database never makes it reject; the report says why it
 * stopped. Ticks may overlap, repeat, come late, or not come.
 */
export async function tick(dependencies: TickDependencies, options: TickOptions): Promise<TickReport> {
  const {
    registry,
    settings,
    log,
    environment,
    clock = () => performance.now(),
    random = Math.random,
  } = dependencies
  const { windowMs, maxJobs = 0, signal, closing, lingerMs, kick } = options
  const window = openWindow(clock, windowMs, settings.reserveMs)
  const database = dependencies.openDatabase()
  const handlersDatabase = dependencies.openDatabase()
  const caller = createCaller(window, clock, random, log)
  const ownRequests = (): number => database.requests() + handlersDatabase.requests() + pushes
  const send: typeof fetch = dependencies.fetch ?? ((...request) => fetch(...request))
  const budget = createBudget(settings.maxSubrequests, ownRequests, send)
  const slots = createSlots({
    registry,
    env: dependencies.env,
    budget,
    sql: handlersDatabase.sql,
    log,
    clock,
  })
  const tally = createTally(log)
  const identity = { environment, tick: crypto.randomUUID() }
  const types = [...registry.keys()]

  const backlog: Backlog = {
    claimed: 0,
    drainedAtMs: undefined,
    leftOut: false,
    suspectType: undefined,
    suspectMs: 0,
  }
  let settles: Settle[] = []
  let aborting = false
  let moreExpired = false
  let abandoned = 0
  let pushes = 0
  let refused = false
  let worstWaitMs: number | null = null
  let stopped: StopReason | undefined
  let failure: string | undefined
  let closed: CloseAnswer | undefined

  const situation = (): Situation => ({
    registry,
    window,
    windowMs,
    backlog,
    running: slots.size(),
    suspectRunning: slots.held().some(({ suspect }) => suspect),
    unsettled: abandoned > 0 || !fitInOneCall(),
    concurrency: settings.concurrency,
    batch: settings.batch,
    maxJobs,
  })

  const fitInOneCall = (): boolean => firstSettles(settles, settings.claimBytes).length === settles.length

  const plan = (): Plan | undefined =>
    stopped === undefined && budget.allowsMore() ? nextClaim(situation()) : undefined

  const closeGate = (): void => {
    stopped ??= 'shutdown'
    slots.wake()
  }

  const shutDown = (): void => {
    stopped ??= 'shutdown'
    aborting = true
    slots.stop('the tick has to stop')
    slots.wake()
  }

  /** Steps until nothing runs and nothing more can be leased; the settles that are left go with the last call. */
  const drain = async (): Promise<void> => {
    await step({
      register: [...registry.values()],
      ...(kick === undefined ? {} : { kick: { token: kick.token, leaseMs: windowMs + KICK_MARGIN_MS } }),
    })
    while (!refused && window.remainingMs() > 0) {
      collect()
      const next = plan()
      if (slots.size() === 0 && next === undefined && !moreExpired && fitInOneCall() && !(await linger()))
        return
      const canFill = next !== undefined && backlog.drainedAtMs === undefined
      if (slots.size() > 0 && !canFill) {
        await waitForRuns()
        if (slots.size() === 0) continue
      }
      await step({})
    }
  }

  /** Waits a while for something to fall due; false when the tick is to end instead. */
  const linger = async (): Promise<boolean> => {
    const mayFit = [...registry.values()].some(({ timeoutMs }) => window.fits(timeoutMs, lingerMs))
    if (lingerMs === undefined || stopped !== undefined || !budget.allowsMore() || !mayFit) return false
    if (maxJobs !== 0 && backlog.claimed >= maxJobs) return false
    await slots.change(lingerMs)
    backlog.drainedAtMs = undefined
    return stopped === undefined
  }

  /** Settles what has ended and leases into the free slots: one call. */
  const step = async (extra: Pick<WorkRequest, 'register' | 'kick'>): Promise<void> => {
    collect()
    const next = settles.some(isRelease) ? undefined : plan()
    const claim: Claim | undefined = next && {
      ...next,
      token: crypto.randomUUID(),
      bytes: settings.claimBytes,
      leaseMs: window.remainingMs() + settings.leaseMarginMs,
    }
    const sent = firstSettles(settles, settings.claimBytes)
    const request = { ...identity, ...extra, types, settles: sent, held: slots.held(), expired: EXPIRED }
    let recovered = false
    const answer = await caller.call((ambiguous) => {
      recovered = ambiguous
      if (claim === undefined) return work(database.sql, request)
      return work(database.sql, { ...request, ...(ambiguous ? { recover: claim.token } : { claim }) })
    })
    settles = settles.filter((settle) => !sent.includes(settle))
    tally.account(sent, answer.verdicts)
    // A recovery claims nothing, so what it answers does not tell whether the queue is empty.
    absorb(answer, recovered ? undefined : claim)
  }

  const absorb = (answer: WorkAnswer, claim: Claim | undefined): void => {
    if (!answer.ownership.matches) {
      stopped = 'wrong_database'
      failure = wrongDatabase(answer.ownership)
      log.error('tick refused', { error: failure })
    }
    refused = !answer.ownership.matches || !answer.kickTaken
    if (refused) return
    for (const leased of answer.jobs) {
      const job = registry.get(leased.type)
      backlog.claimed += 1
      worstWaitMs = Math.max(worstWaitMs ?? 0, leased.waitedMs)
      if (job !== undefined && stopped === undefined && window.fits(job.timeoutMs)) slots.start(leased, job)
      else settles.push(settleUnentered(leased))
    }
    backlog.suspectType = answer.dueSuspectType
    if (claim?.suspects === true && answer.jobs.length === 0) backlog.suspectType = undefined
    if (claim?.suspects === false && !claim.yieldTo.includes(answer.dueSuspectType ?? '')) {
      backlog.drainedAtMs = isShort(answer, claim) ? window.elapsedMs() : undefined
    }
    for (const { id, reason } of answer.aborts) slots.stop(`the job's lease was ${reason}`, id)
    moreExpired = answer.expired.length === EXPIRED
    const own = new Set([...slots.held(), ...settles].map(({ id }) => id))
    const expired = answer.expired.filter(({ id }) => !own.has(id))
    settles.push(...expired.map((lease) => settleExpired(lease, registry, settings.backoff, random)))
  }

  /** Turns runs that have ended into settles. */
  const collect = (): void => {
    for (const ended of slots.takeEnded()) {
      if (ended.leased.suspect) backlog.suspectMs += ended.durationMs
      const settle = settleEnded(ended, random)
      if (settle === undefined) abandoned += 1
      else settles.push(settle)
    }
  }

  /** Waits until a run has ended, then a little for others that are about to. */
  const waitForRuns = async (): Promise<void> => {
    if (!aborting) await slots.change(Math.min(ASK_EVERY_MS, window.runningMs()))
    if (window.runningMs() <= 0) slots.stop('the tick is at its deadline')
    const stopping = aborting || window.runningMs() <= 0
    await slots.idle(stopping ? 2 * RETURN_GRACE_MS : Math.min(caller.lastTripMs(), COMPANY_MS))
  }

  const finish = async (): Promise<void> => {
    collect()
    stopped ??= budget.allowsMore() ? stopReason(situation()) : 'budget'
    const sent = settles
    closed = await caller.call(() =>
      close(database.sql, {
        ...identity,
        types,
        settles,
        retention: settings.retention,
        prune: PRUNE,
        fold: FOLD,
        record: { stopped: stopped ?? 'empty', durationMs: window.elapsedMs(), report: report() },
        ...(kick === undefined ? {} : { kick: kick.token }),
        ...(dependencies.push === undefined ? {} : { pushLeaseMs: settings.pushLeaseMs }),
      }),
    )
    tally.account(sent, closed.verdicts)
    kick?.onEnd(closed.kickAgain)
    if (closed.push === undefined || dependencies.push === undefined) return
    const { sequence, metrics } = closed.push
    pushes += 1
    const error = await dependencies.push(sequence, metrics)
    if (error !== null) log.warn('push failed', { error })
    await caller.call(() => pushed(database.sql, sequence, error))
  }

  const report = (): TickReport => ({
    claimed: backlog.claimed,
    ...tally.counts,
    scheduled: 0,
    pruned: closed?.pruned ?? 0,
    roundTrips: caller.roundTrips(),
    subrequests: budget.used(),
    durationMs: Math.round(window.elapsedMs()),
    startLatencyMs: worstWaitMs,
    stopped: stopped ?? 'empty',
    more: closed?.more ?? false,
    nextDueAt: closed?.nextDueAt ?? null,
    ...(failure === undefined ? {} : { error: failure }),
  })

  signal?.addEventListener('abort', shutDown)
  closing?.addEventListener('abort', closeGate)
  if (closing?.aborted === true) closeGate()
  if (signal?.aborted === true) shutDown()
  try {
    await drain()
    if (!refused) await finish()
  } catch (error) {
    if (!(error instanceof DatabaseError)) throw error
    // A tick whose last call went through has only failed to say how its push went.
    stopped = closed === undefined ? 'error' : stopped
    failure = closed === undefined ? error.message : failure
    log.error('tick failed', errorFields(error))
  } finally {
    signal?.removeEventListener('abort', shutDown)
    closing?.removeEventListener('abort', closeGate)
    slots.stop('the tick has ended')
    await Promise.all([database.close(), handlersDatabase.close()])
  }
  logReport(log, report())
  return report()
}

/** Whether a claim found less than it asked for, and not for want of room for bytes. */
function isShort({ jobs }: WorkAnswer, claim: Claim): boolean {
  const bytes = jobs.reduce((sum, { payload }) => sum + payload.length, 0)
  return jobs.length < claim.limit && bytes < claim.bytes
}

function logReport(log: Logger, report: TickReport): void {
  const quiet =
    report.claimed === 0 && report.reaped === 0 && report.pruned === 0 && report.stopped === 'empty'
  log[quiet ? 'debug' : 'info']('tick done', { ...report })
}
