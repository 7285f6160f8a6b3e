import { query, type Sample } from '../support/prometheus.ts'
import type { Expected } from './audit.ts'

/** What the counters of an instance in Prometheus have that is not expected, and what is missing. */
export async function differences(
  prometheus: string,
  instance: string,
  expected: readonly Expected[],
): Promise<readonly string[]> {
  const selector = `{job="tidegate", instance="${instance}", __name__=~".+_total|.+_bucket|.+_count|.+_sum"}`
  const samples = await query(prometheus, selector)
  const seen = new Set(samples.filter(({ value }) => value > 0).map(textOfSample))
  const wanted = new Set(expected.map(textOf))
  return [
    ...[...seen].filter((text) => !wanted.has(text)).map((text) => `Prometheus alone has ${text}`),
    ...[...wanted].filter((text) => !seen.has(text)).map((text) => `the rows alone have ${text}`),
  ]
}

function textOfSample({ labels, value }: Sample): string {
  const { __name__: name = '', job: _job, instance: _instance, ...own } = labels
  return textOf({ name, labels: own, value })
}

function textOf({ name, labels, value }: Expected): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${text}"`)
  return `${name}{${pairs.sort().join(',')}} ${value}`
}
