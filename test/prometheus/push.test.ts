import { afterEach, beforeEach, describe, expect, it } from 'vitest'

import { ask, poll, query, scraped } from '../support/prometheus.ts'
import { job } from '../support/tick.ts'
import { beginAudit, expectedCounters } from './audit.ts'
import type { Fate } from './network.ts'
import { openPushingRoot, programs, PUSH_LEASE_MS, type PushingRoot, type Trouble } from './root.ts'
import { differences } from './series.ts'

const gateway = programs?.gateway ?? ''
const prometheus = programs?.prometheus ?? ''
const jobs = () => [job(() => undefined)]
const impatient = { pushTimeoutMs: 100 }

let plant: PushingRoot
let instances = 0
beforeEach(async () => {
  instances += 1
  plant = await openPushingRoot(gateway, `push-${instances}`)
})
afterEach(() => plant[Symbol.asyncDispose]())

const resets = async () => {
  const series = `tidegate_snapshot_sequence{job="tidegate", instance="${plant.instance}"}`
  return (await query(prometheus, `resets(${series}[1h])`))[0]?.value
}

/** The alerts that fire for this root. */
const firing = async () => {
  const { alerts } = await ask<{ alerts: readonly Alert[] }>(prometheus, 'alerts')
  const raised = alerts.filter(
    ({ state, labels }) => state === 'firing' && labels.instance === plant.instance,
  )
  return raised.map(({ labels }) => labels.alertname)
}

interface Alert {
  readonly state: string
  readonly labels: { readonly instance?: string; readonly alertname: string }
}

describe.skipIf(programs === undefined)('a gateway', () => {
  const gone = 'http://127.0.0.1:1'
  it.each<[string, readonly Fate[], Trouble, number]>([
    ['that hangs', ['hold'], impatient, 1],
    ['that answers 500', ['fail'], {}, 1],
    ['that answers half', ['half'], {}, 1],
    ['that never ends its answer', ['stall'], {}, 0],
    ['that refuses', [], { pushUrl: gone }, 1],
    ['that is none', [], { pushUrl: `${gateway}/nothing-here` }, 1],
  ])('%s costs a tick nothing but its own timeout', async (_, fates, trouble, failures) => {
    const { root, network, tick } = plant
    const id = await root.put('t')
    network.plan(...fates)
    await expect(tick(jobs, trouble)).resolves.toMatchObject({ claimed: 1, completed: 1, stopped: 'empty' })
    // The tick has returned and the gateway still has not answered.
    expect(network.held).toHaveLength(fates.filter((fate) => fate === 'hold').length)
    await expect(root.job(id)).resolves.toMatchObject({ status: 'completed' })
    const [row] = await root.db.query<{ failures: string }>(
      `select coalesce(sum(value), 0) as failures from tidegate.counter_deltas where name = 'metrics_push_failures_total'`,
    )
    expect(Number(row?.failures)).toBe(failures)
  })
})

describe.skipIf(programs === undefined)('one pusher at a time', () => {
  it('pushes while another waits for the gateway', async () => {
    const { network, tick } = plant
    network.plan('hold')
    const held = network.nextHeld()
    const first = tick(jobs)
    const { sequence, deliver } = await held
    await expect(tick(jobs)).resolves.toMatchObject({ stopped: 'empty' })
    expect(network.sent).toHaveLength(1)
    await deliver()
    await expect(first).resolves.toMatchObject({ stopped: 'empty' })
    await scraped(prometheus, plant.instance, sequence)
    await tick(jobs)
    await scraped(prometheus, plant.instance, sequence + 1)
    await expect(resets()).resolves.toBe(0)
  })

  it('is not overtaken after its timeout, for the network may still hold what it sent', async () => {
    const { network, tick, advance } = plant
    await tick(jobs)
    await scraped(prometheus, plant.instance, 1)
    network.plan('hold')
    await tick(jobs, impatient)
    await tick(jobs)
    expect(network.delivered()).toBe(1)
    await network.held[0]?.deliver()
    await scraped(prometheus, plant.instance, 2)
    await advance(PUSH_LEASE_MS)
    await tick(jobs)
    await scraped(prometheus, plant.instance, 3)
    await expect(resets()).resolves.toBe(0)
  })

  it('that dies before its push keeps the others away until its lease ends', async () => {
    const { network, tick, advance } = plant
    await tick(jobs)
    await scraped(prometheus, plant.instance, 1)
    await tick(jobs, { diesBeforePush: true })
    await tick(jobs)
    expect(network.sent).toHaveLength(1)
    await advance(PUSH_LEASE_MS)
    await tick(jobs)
    await scraped(prometheus, plant.instance, 3)
    await expect(resets()).resolves.toBe(0)
  })
})

describe.skipIf(programs === undefined)('a push delayed beyond its lease', () => {
  it('is seen by the sequence, raises the alert, and is repaired by the next push', async () => {
    const { root, network, tick, advance, instance } = plant
    await beginAudit(root.db)
    await root.put('t')
    network.plan('hold')
    await tick(jobs, impatient)
    await advance(PUSH_LEASE_MS)
    await root.put('t')
    await tick(jobs)
    await scraped(prometheus, instance, 2)
    const expected = await expectedCounters(root.db, plant.told())
    await expect(differences(prometheus, instance, expected)).resolves.toEqual([])

    await network.held[0]?.deliver()
    await scraped(prometheus, instance, 1)
    await expect(differences(prometheus, instance, expected)).resolves.not.toEqual([])
    await poll(() => expect(firing()).resolves.toEqual(['TidegateSnapshotLate']))

    await tick(jobs)
    await scraped(prometheus, instance, 3)
    const repaired = await expectedCounters(root.db, plant.told())
    await expect(differences(prometheus, instance, repaired)).resolves.toEqual([])
  })
})

describe.skipIf(programs === undefined)('the first death of a type', () => {
  it('is an increase, for its counter was there before, and raises the alert', async () => {
    const { root, tick, instance } = plant
    const fails = () => [
      job(() => {
        throw new Error('no')
      }),
    ]
    await tick(fails)
    await scraped(prometheus, instance, 1)
    await root.put('t', {}, { maxAttempts: 1 })
    await tick(fails)
    await scraped(prometheus, instance, 2)
    await poll(() => expect(firing()).resolves.toEqual(['TidegateDeadJobsGrowing']))
  })
})

describe.skipIf(programs === undefined)('the group of a database', () => {
  it.each(['production', 'a b', 'a/b', '', 'ü/ÿ?', '.', '..', '%2e', 'a+b&c=d#e'])(
    'has the instance %j in Prometheus',
    async (instance) => {
      await using named = await openPushingRoot(gateway, instance)
      await named.tick(jobs)
      expect(named.network.delivered()).toBe(1)
      await scraped(prometheus, instance, 1)
    },
  )
})
