import { z } from 'zod'

import { openPg } from '../../src/db/pg.ts'
import { PermanentError, snooze } from '../../src/errors.ts'
import { defineJob, type AnyJob, type HandlerResult, type JobContext } from '../../src/registry.ts'
import { cancel, requeue } from '../../src/store/operate.ts'
import { never, untilAborted } from '../support/tick.ts'
import type { Fate } from './network.ts'
import type { Jobs, PushingRoot, Trouble } from './root.ts'

const JOBS = 1_000

/** Longer than a window and its lease. */
const ROUND_MS = 1_000_000

/** Ten overlapping ticks, and what becomes of the pushes that they make. */
interface Round {
  readonly pushes: readonly Fate[]
  readonly ticks: readonly Trouble[]
}

const well = { pushTimeoutMs: 20_000 }
const impatient = { pushTimeoutMs: 100 }

const ROUNDS: readonly Round[] = [
  {
    pushes: [],
    ticks: [
      { diesAtCall: 1 },
      { diesAtCall: 2 },
      { diesAtCall: 4 },
      { losesAnswerEvery: 3 },
      { losesAnswerEvery: 4 },
      ...Array.from({ length: 5 }, () => well),
    ],
  },
  { pushes: ['hold'], ticks: Array.from({ length: 10 }, () => impatient) },
  { pushes: ['fail', 'deliver'], ticks: [{ losesAnswerEvery: 2 }, ...Array.from({ length: 9 }, () => well)] },
  { pushes: ['half', 'deliver'], ticks: Array.from({ length: 10 }, () => well) },
  { pushes: [], ticks: Array.from({ length: 10 }, () => ({ diesBeforePush: true })) },
  { pushes: ['hold'], ticks: Array.from({ length: 10 }, () => impatient) },
]

/**
 * A thousand jobs under rounds of ten overlapping ticks, some of which die or lose answers, with an operator at work
 * and a gateway that is slow, broken or gone. Ends with a push of everything.
 */
export async function runLoad(plant: PushingRoot): Promise<void> {
  const { network, advance, root } = plant
  const own = openPg({ url: root.db.url })
  const ids = (status: string, limit: number) =>
    root.db.query<{ id: string }>('select id from tidegate.jobs where status = $1 order by id limit $2', [
      status,
      limit,
    ])
  const jobs = createJobs()

  await plant.tick(jobs)
  await enqueueAll(plant)
  for (const { id } of await ids('pending', 10)) await cancel(own.sql, id)
  for (const { pushes, ticks } of ROUNDS) {
    network.plan(...pushes)
    await Promise.all(ticks.map((trouble) => plant.tick(jobs, trouble)))
    for (const push of network.held.splice(0)) {
      // It arrives late, but while its pusher still keeps others away: nothing may overtake it.
      await plant.tick(jobs)
      await push.deliver()
    }
    await releaseTwo(plant)
    const thaw = await freezeTwo(plant)
    for (const { id } of await ids('running', 1)) await cancel(own.sql, id)
    await advance(ROUND_MS)
    await plant.tick(jobs)
    await thaw()
    for (const { id } of await ids('dead', 3)) await requeue(own.sql, id, 'test')
  }
  await root.put('work', { behaviour: 'fails for good' })
  await root.put('work', { behaviour: 'succeeds' }, { delayMs: ROUND_MS })
  await advance(ROUND_MS / 2)
  await plant.tick(jobs)
  await own.close()
}

const BEHAVIOURS = [
  'succeeds',
  'fails once',
  'always fails',
  'fails for good',
  'snoozes once',
  'has follow-ups',
] as const

/** Of twenty jobs in a row; payloads without a behaviour are refused by the schema. */
const MIX = [
  ...Array.from({ length: 12 }, () => ({ behaviour: 'succeeds' })),
  ...Array.from({ length: 3 }, () => ({ behaviour: 'fails once' })),
  { behaviour: 'always fails' },
  { behaviour: 'fails for good' },
  { behaviour: 'snoozes once' },
  { behaviour: 'has follow-ups' },
  {},
]

/** A value in each bucket of the histograms, in milliseconds. */
const BETWEEN_BOUNDS = [50, 200, 400, 800, 2_000, 4_000, 8_000, 20_000, 45_000, 90_000, 200_000, 400_000]

async function enqueueAll({ root }: PushingRoot): Promise<void> {
  await Promise.all([
    ...Array.from({ length: JOBS - 3 }, (_, n) => {
      const dawdleMs = n % 79 === 0 ? BETWEEN_BOUNDS[n / 79] : undefined
      const waitsMs = BETWEEN_BOUNDS[n % 36]
      return root.put(
        'work',
        { ...MIX[n % MIX.length], dawdleMs },
        { maxAttempts: 3, ...(waitsMs !== undefined && { delayMs: ROUND_MS - waitsMs }) },
      )
    }),
    ...Array.from({ length: 3 }, () => root.put('hangs', {}, { maxAttempts: 2 })),
  ])
}

/** Every type of the load, with a memory of what happened once. */
function createJobs(): Jobs {
  const snoozed = new Set<string>()
  return (dawdle) => [
    defineJob({
      type: 'work',
      payload: z.object({ behaviour: z.enum(BEHAVIOURS), dawdleMs: z.number().optional() }),
      timeout: '30s',
      run({ behaviour, dawdleMs = 0 }, { id, attempt, enqueue }) {
        dawdle(dawdleMs)
        switch (behaviour) {
          case 'succeeds':
            return undefined
          case 'fails once':
            if (attempt > 1) return undefined
            throw new Error('the first attempt fails')
          case 'always fails':
            throw new Error('every attempt fails')
          case 'fails for good':
            throw new PermanentError('there is no use')
          case 'snoozes once':
            if (snoozed.has(id)) return undefined
            snoozed.add(id)
            return snooze({ seconds: 5 })
          case 'has follow-ups':
            enqueue('work', { behaviour: 'succeeds' })
            enqueue('gated', {})
            return undefined
        }
      },
    }),
    defineJob({ type: 'hangs', payload: z.unknown(), timeout: 100, run: () => never }),
    gated(() => undefined),
  ]
}

function gated(run: (context: JobContext) => Promise<HandlerResult> | HandlerResult): AnyJob {
  return defineJob({ type: 'gated', payload: z.unknown(), timeout: '30s', run: (_, context) => run(context) })
}

/** A tick that is told to stop while two jobs run, which then give up. */
async function releaseTwo({ root, tick }: PushingRoot): Promise<void> {
  await root.put('gated')
  await root.put('gated')
  const stop = new AbortController()
  const givesUp = gated(({ signal }) => {
    stop.abort()
    return untilAborted(signal, () => {
      throw new Error('given up')
    })
  })
  await tick(() => [givesUp], {}, { signal: stop.signal })
}

/** A tick whose process is frozen while it runs two jobs; the function that is returned thaws it. */
async function freezeTwo({ tick }: PushingRoot): Promise<() => Promise<void>> {
  const warm = Promise.withResolvers<void>()
  const entered = Promise.withResolvers<void>()
  let running = 0
  const freezes = gated(() => {
    running += 1
    if (running === 2) entered.resolve()
    return warm.promise
  })
  const ended = tick(() => [freezes])
  await entered.promise
  return async () => {
    warm.resolve()
    await ended
  }
}
