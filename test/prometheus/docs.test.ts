import { expect, it } from 'vitest'

import { renderMetrics } from '../../src/metrics.ts'
import { readHeadings, readMetricsTable, readOwnLinks, type DocumentedMetric } from './monitoring-doc.ts'

it('docs/monitoring.md lists every metric as it is rendered, and no other', async () => {
  const registered = { name: 'jobs_pending', type: 't', label: '', value: 0 }
  const { body } = await renderMetrics([registered], 1)
  const rendered = [...body.matchAll(/^# HELP (\w+) (.+)\n# TYPE \w+ (\w+)$/gm)].map(
    ([, name = '', meaning = '', type = '']): DocumentedMetric => ({
      name,
      type,
      labels: labelsOf(name, body),
      meaning,
    }),
  )
  expect(rendered).not.toEqual([])
  await expect(readMetricsTable()).resolves.toEqual(rendered)
})

it('docs/monitoring.md links to headings that it has', async () => {
  const headings = await readHeadings()
  const links = await readOwnLinks()
  expect(links).not.toEqual([])
  expect(links.filter((anchor) => !headings.includes(anchor))).toEqual([])
})

/** The labels of a metric's series, but for those that every histogram has. */
function labelsOf(name: string, text: string): readonly string[] {
  const series = text.matchAll(new RegExp(`^${name}(?:_bucket|_sum|_count)?\\{(.+)\\} `, 'gm'))
  const labels = [...series].flatMap(([, pairs = '']) =>
    [...pairs.matchAll(/(\w+)="/g)].map(([, label = '']) => label),
  )
  return [...new Set(labels)].filter((label) => label !== 'le')
}
