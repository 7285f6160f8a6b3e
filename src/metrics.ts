import { Registry } from 'prom-client'

import type { MetricRow } from './store/metrics.ts'

/** A snapshot in the Prometheus text format. */
export interface MetricsText {
  readonly contentType: string
  readonly body: string
}

/**
 * Renders a snapshot that was read from Postgres. A function's memory is gone after its tick, so nothing is
 * counted here. `sequence` numbers a snapshot that is pushed.
 */
export async function renderMetrics(rows: readonly MetricRow[], sequence?: number): Promise<MetricsText> {
  const registry = new Registry()
  const register = (series: Series) => registry.registerMetric(asMetric(series))
  for (const counter of COUNTERS) register(counterSeries(counter, rows))
  for (const gauge of GAUGES)
    register({ ...gauge, type: 'gauge', values: named(rows, gauge.name).map(plain) })
  for (const histogram of HISTOGRAMS) register(histogramSeries(histogram, rows))
  if (sequence !== undefined)
    register({ ...SEQUENCE, type: 'gauge', values: [{ labels: {}, value: sequence }] })
  return { contentType: registry.contentType, body: await registry.metrics() }
}

interface Named {
  readonly name: string
  readonly help: string
}

interface Counter extends Named {
  /** What the row's type and label become. */
  readonly typeLabel?: boolean
  readonly label?: string
}

const COUNTERS: readonly Counter[] = [
  {
    name: 'jobs_enqueued_total',
    help: 'Jobs created. A repeated key creates none; follow-ups count.',
    typeLabel: true,
  },
  {
    name: 'jobs_processed_total',
    help: 'Runs that ended, by result. Failed includes timeouts, refused payloads and crashes found by their expired lease; releases and snoozes do not count.',
    typeLabel: true,
    label: 'result',
  },
  { name: 'jobs_died_total', help: 'Jobs that became dead.', typeLabel: true },
  {
    name: 'jobs_released_total',
    help: 'Leases given back with their attempt, because their tick had to stop.',
    typeLabel: true,
  },
  { name: 'jobs_snoozed_total', help: 'Runs that asked to run again later.', typeLabel: true },
  { name: 'jobs_cancelled_total', help: 'Jobs that became cancelled.', typeLabel: true },
  {
    name: 'jobs_requeued_total',
    help: 'Dead or cancelled jobs made pending again by an operator.',
    typeLabel: true,
  },
  { name: 'jobs_reaped_total', help: 'Expired leases settled as crashed.', typeLabel: true },
  { name: 'jobs_lease_lost_total', help: 'Settles that came too late: the lease was gone, nothing changed.' },
  { name: 'jobs_pruned_total', help: 'Finished jobs deleted for their age, by status.', label: 'status' },
  { name: 'ticks_total', help: 'Ticks that reached their last call, by why they stopped.', label: 'stopped' },
  { name: 'metrics_push_failures_total', help: 'Pushes to the gateway that failed.' },
]

const GAUGES: readonly Named[] = [{ name: 'jobs_in_flight', help: 'Running jobs whose lease has not ended.' }]

interface Histogram extends Named {
  /** The name of its rows, whose values are microseconds. */
  readonly rows: string
  readonly buckets: readonly string[]
}

const HISTOGRAMS: readonly Histogram[] = [
  {
    name: 'job_processing_duration_seconds',
    help: 'Time from entering a handler until it returned or was given up. A crash has no duration.',
    rows: 'job_processing_duration_us',
    buckets: ['0.1', '0.25', '0.5', '1', '2.5', '5', '10', '30', '60', '120', '300', '+Inf'],
  },
]

const SEQUENCE: Named = {
  name: 'tidegate_snapshot_sequence',
  help: 'Number of this pushed snapshot. One that goes back was delivered late; the next push repairs it.',
}

interface Series extends Named {
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly values: readonly {
    readonly labels: Labels
    readonly value: number
    readonly metricName?: string
  }[]
}

type Labels = Record<string, string>

function counterSeries(counter: Counter, rows: readonly MetricRow[]): Series {
  return {
    ...counter,
    type: 'counter',
    values: named(rows, counter.name).map(({ type, label, value }) => ({
      labels: {
        ...(counter.typeLabel === true ? { type } : {}),
        ...(counter.label === undefined ? {} : { [counter.label]: label }),
      },
      value,
    })),
  }
}

/** Rows hold what fell into each bucket; Prometheus wants it added up from the smallest. */
function histogramSeries(
  { name, help, rows: rowName, buckets }: Histogram,
  rows: readonly MetricRow[],
): Series {
  const observed = named(rows, rowName)
  const types = [...new Set(observed.map(({ type }) => type))].sort()
  const values = types.flatMap((type) => {
    const valueOf = (label: string) =>
      observed.find((row) => row.type === type && row.label === label)?.value ?? 0
    let count = 0
    const cumulative = buckets.map((le) => {
      count += valueOf(le)
      return { metricName: `${name}_bucket`, labels: { le, type }, value: count }
    })
    return [
      ...cumulative,
      { metricName: `${name}_sum`, labels: { type }, value: valueOf('sum') / 1_000_000 },
      { metricName: `${name}_count`, labels: { type }, value: count },
    ]
  })
  return { name, help, type: 'histogram', values }
}

function named(rows: readonly MetricRow[], name: string): readonly MetricRow[] {
  return rows.filter((row) => row.name === name)
}

function plain({ value }: MetricRow): Series['values'][number] {
  return { labels: {}, value }
}

/** prom-client renders any object that can `get` its values. */
function asMetric(series: Series): Parameters<Registry['registerMetric']>[0] {
  const metric = { name: series.name, get: () => Promise.resolve({ ...series, aggregator: 'sum' }) }
  return metric as unknown as Parameters<Registry['registerMetric']>[0]
}
