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
  for (const gauge of GAUGES) register(gaugeSeries(gauge, rows))
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
  /** Every value of that label. */
  readonly values?: readonly string[]
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
    values: ['completed', 'failed'],
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
  {
    name: 'jobs_pruned_total',
    help: 'Finished jobs deleted for their age, by status.',
    label: 'status',
    values: ['completed', 'cancelled', 'dead'],
  },
  {
    name: 'ticks_total',
    help: 'Ticks that reached their last call, by why they stopped.',
    label: 'stopped',
    values: ['empty', 'deadline', 'limit', 'budget', 'shutdown'],
  },
  { name: 'metrics_push_failures_total', help: 'Pushes to the gateway that failed.' },
]

interface Gauge extends Named {
  readonly typeLabel?: boolean
}

const GAUGES: readonly Gauge[] = [
  { name: 'jobs_in_flight', help: 'Running jobs whose lease has not ended.' },
  {
    name: 'jobs_expired_leases',
    help: 'Running jobs whose lease has ended and that no tick has recovered yet.',
  },
  {
    name: 'jobs_pending',
    help: 'Jobs of a registered type that wait: due, delayed or to be retried. Counted up to 100000.',
    typeLabel: true,
  },
  { name: 'jobs_dead', help: 'Dead jobs that are kept, of the last 100000.', typeLabel: true },
  {
    name: 'job_oldest_due_age_seconds',
    help: 'How long the longest due pending job has waited; 0 when none is due.',
    typeLabel: true,
  },
  {
    name: 'tick_last_success_timestamp_seconds',
    help: 'When the last tick reached its last call, Unix time.',
  },
]

interface Histogram extends Named {
  /** The name of its rows, whose values are microseconds. */
  readonly rows: string
  readonly typeLabel: boolean
}

/** Upper bounds in seconds, as `tidegate.duration_bucket` names them. */
const BUCKETS = ['0.1', '0.25', '0.5', '1', '2.5', '5', '10', '30', '60', '120', '300', '+Inf']

const HISTOGRAMS: readonly Histogram[] = [
  {
    name: 'job_processing_duration_seconds',
    help: 'Time from entering a handler until it returned or was given up. A crash has no duration.',
    rows: 'job_processing_duration_us',
    typeLabel: true,
  },
  {
    name: 'job_start_latency_seconds',
    help: 'Time from due to leased, of every lease, retries too.',
    rows: 'job_start_latency_us',
    typeLabel: true,
  },
  {
    name: 'tick_duration_seconds',
    help: 'Time of ticks until their last call.',
    rows: 'tick_duration_us',
    typeLabel: false,
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
    values: withZeros(rows, counter.name, counter.typeLabel, counter.values).map(
      ({ type, label, value }) => ({
        labels: {
          ...(counter.typeLabel === true ? { type } : {}),
          ...(counter.label === undefined ? {} : { [counter.label]: label }),
        },
        value,
      }),
    ),
  }
}

function gaugeSeries(gauge: Gauge, rows: readonly MetricRow[]): Series {
  const { name, typeLabel = false } = gauge
  const given = typeLabel ? withZeros(rows, name, typeLabel) : named(rows, name)
  const values = given.map(({ type, value }) => ({ labels: typeLabel ? { type } : {}, value }))
  return { ...gauge, type: 'gauge', values }
}

/** Rows hold what fell into each bucket; Prometheus wants it added up from the smallest. */
function histogramSeries(histogram: Histogram, rows: readonly MetricRow[]): Series {
  const { name, help, rows: rowName, typeLabel } = histogram
  const observed = named(rows, rowName)
  const types = [
    ...new Set([...observed, ...withZeros(rows, rowName, typeLabel)].map(({ type }) => type)),
  ].sort()
  const values = types.flatMap((type) => {
    const labels: Labels = typeLabel ? { type } : {}
    const valueOf = (label: string) =>
      observed.find((row) => row.type === type && row.label === label)?.value ?? 0
    let count = 0
    const cumulative = BUCKETS.map((le) => {
      count += valueOf(le)
      return { metricName: `${name}_bucket`, labels: { le, ...labels }, value: count }
    })
    return [
      ...cumulative,
      { metricName: `${name}_sum`, labels, value: valueOf('sum') / 1_000_000 },
      { metricName: `${name}_count`, labels, value: count },
    ]
  })
  return { name, help, type: 'histogram', values }
}

function named(rows: readonly MetricRow[], name: string): readonly MetricRow[] {
  return rows.filter((row) => row.name === name)
}

/**
 * The rows of a name, and a zero for what has not happened to a registered type yet: Prometheus sees no increase in a
 * counter that begins at 1.
 */
function withZeros(
  rows: readonly MetricRow[],
  name: string,
  typeLabel = false,
  labels: readonly string[] = [''],
): readonly MetricRow[] {
  const given = named(rows, name)
  const types = typeLabel ? named(rows, 'jobs_pending').map(({ type }) => type) : ['']
  const zeros = types.flatMap((type) => labels.map((label) => ({ name, type, label, value: 0 })))
  const isMissing = (zero: MetricRow) =>
    !given.some(({ type, label }) => type === zero.type && label === zero.label)
  return [...given, ...zeros.filter(isMissing)]
}

/** prom-client renders any object that can `get` its values. */
function asMetric(series: Series): Parameters<Registry['registerMetric']>[0] {
  const metric = { name: series.name, get: () => Promise.resolve({ ...series, aggregator: 'sum' }) }
  return metric as unknown as Parameters<Registry['registerMetric']>[0]
}
