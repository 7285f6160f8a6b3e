import { afterAll, beforeAll, describe, expect, it } from 'vitest'

import { query, scraped } from '../support/prometheus.ts'
import { as, openApi } from '../support/api.ts'
import { beginAudit, expectedCounters, type Expected } from './audit.ts'
import { answerTo, readDashboard } from './dashboard.ts'
import { runLoad } from './load.ts'
import { checkWith } from './promtool.ts'
import { openPushingRoot, programs, type PushingRoot } from './root.ts'
import { differences } from './series.ts'

const { gateway = '', prometheus = '', promtool = '' } = programs ?? {}
const instance = 'exact'
const dashboard = await readDashboard()

describe.skipIf(programs === undefined)('after a thousand jobs under ten overlapping ticks', () => {
  let plant: PushingRoot
  let expected: readonly Expected[]
  let metrics: string
  beforeAll(async () => {
    // No push is answered before a scrape has seen it, so none can hide behind the next one.
    plant = await openPushingRoot(gateway, instance, (sequence) => scraped(prometheus, instance, sequence))
    await beginAudit(plant.root.db)
    await runLoad(plant)
    expected = await expectedCounters(plant.root.db, plant.told())
    const api = await openApi(undefined, () => Promise.resolve(plant.root.db))
    metrics = await (await api.send('/metrics', { headers: as('operator') })).text()
  })
  afterAll(() => plant[Symbol.asyncDispose]())

  const pushed = () => plant.network.sent.at(-1)?.body ?? ''

  it('every counter has been put to the test', () => {
    const counters = [...metrics.matchAll(/^# TYPE (\S+) (?:counter|histogram)$/gm)].map(
      ([, name = '']) => name,
    )
    const grown = expected.map(({ name }) => name.replace(/_(bucket|count|sum)$/, ''))
    expect(new Set(grown)).toEqual(new Set(counters))
  })

  it('every counter in Prometheus is what the history of the rows says, to the unit', async () => {
    await expect(differences(prometheus, instance, expected)).resolves.toEqual([])
  })

  it('no counter has ever gone back', async () => {
    const names = new Set([...expected.map(({ name }) => name), 'tidegate_snapshot_sequence'])
    const decreased = [...names].map(async (name) => {
      const back = `resets(${name}{job="tidegate", instance="${instance}"}[1h])`
      const all = await query(prometheus, back)
      return all.length > 0 && all.every(({ value }) => value === 0) ? [] : [name]
    })
    expect((await Promise.all(decreased)).flat()).toEqual([])
  })

  it('GET /metrics says what was pushed', () => {
    const lines = (text: string) =>
      text.split('\n').filter((line) => !/^$|tidegate_snapshot_sequence|^job_oldest_due_age/.test(line))
    expect(lines(metrics)).toEqual(lines(pushed()))
  })

  it('promtool finds nothing wrong with either text', async () => {
    await expect(checkWith(promtool, ['check', 'metrics'], metrics)).resolves.toBe('')
    await expect(checkWith(promtool, ['check', 'metrics'], pushed())).resolves.toBe('')
  })

  it.each(dashboard.queries)('the dashboard is answered: $title, $expression', async ({ expression }) => {
    const values = await answerTo(prometheus, expression, instance)
    expect(values.filter(Number.isFinite)).not.toEqual([])
  })

  it.each(dashboard.variables)('the dashboard offers what there is of $name', async ({ expression }) => {
    const values = await answerTo(prometheus, expression, instance)
    expect(values.filter(Number.isFinite)).not.toEqual([])
  })
})
