import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'

import { ask } from '../support/prometheus.ts'

/** The queries of the dashboard that we ship. */
export interface Dashboard {
  readonly queries: readonly { readonly title: string; readonly expression: string }[]
  /** Variables with values that are read from Prometheus, and a query whose series carry those values. */
  readonly variables: readonly { readonly name: string; readonly expression: string }[]
}

const file = join(import.meta.dirname, '..', '..', 'deploy', 'grafana', 'tidegate.json')

/** Reads the dashboard. Throws when a panel has no query, or one that does not ask the chosen data source. */
export async function readDashboard(): Promise<Dashboard> {
  const { panels, templating } = schema.parse(JSON.parse(await readFile(file, 'utf8')))
  return {
    queries: panels.flatMap((panel) =>
      panel.type === 'row' ? [] : panel.targets.map(({ expr }) => ({ title: panel.title, expression: expr })),
    ),
    variables: templating.list.flatMap((variable) =>
      variable.type === 'query' ? [{ name: variable.name, expression: labelled(variable.definition) }] : [],
    ),
  }
}

/** Every value of the last minute that a query has, with the variables as Grafana would put them in. */
export async function answerTo(
  prometheus: string,
  expression: string,
  instance: string,
): Promise<readonly number[]> {
  const query = expression
    .replaceAll('$instance', instance)
    .replaceAll('$type', '.*')
    .replaceAll('$__rate_interval', '1m')
  if (query.includes('$')) throw new Error(`expected only known variables, got ${query}`)
  const now = Date.now() / 1_000
  const { result } = await ask<{ result: readonly { values: readonly [number, string][] }[] }>(
    prometheus,
    'query_range',
    { query, start: String(now - 60), end: String(now), step: '1' },
  )
  return result.flatMap(({ values }) => values.map(([, value]) => Number(value)))
}

/** `label_values(selector, label)` is Grafana's own; Prometheus groups the same series by that label. */
function labelled(definition: string): string {
  const [, selector, label] = /^label_values\((.+), (\w+)\)$/.exec(definition) ?? []
  if (selector === undefined) throw new Error(`expected label_values(…), got ${definition}`)
  return `group by (${label}) (${selector})`
}

const datasource = z.object({ type: z.literal('prometheus'), uid: z.literal('${datasource}') })
const target = z.object({ datasource, expr: z.string().min(1), legendFormat: z.string().min(1) })

const schema = z.object({
  uid: z.literal('tidegate'),
  title: z.string(),
  panels: z.array(
    z.discriminatedUnion('type', [
      z.object({ type: z.literal('row'), title: z.string() }),
      z.object({
        type: z.enum(['stat', 'timeseries']),
        title: z.string().min(1),
        datasource,
        targets: z.array(target).min(1),
      }),
    ]),
  ),
  templating: z.object({
    list: z.array(
      z.discriminatedUnion('type', [
        z.object({
          type: z.literal('datasource'),
          name: z.literal('datasource'),
          query: z.literal('prometheus'),
        }),
        z.object({ type: z.literal('query'), name: z.string(), datasource, definition: z.string() }),
      ]),
    ),
  }),
})
