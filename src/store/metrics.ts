import type { Row, Sql } from '../db/sql.ts'
import { data } from './work.ts'

/** One value of a series. Durations are in microseconds, under `sum` or the upper bound of a bucket. */
export interface MetricRow {
  readonly name: string
  readonly type: string
  readonly label: string
  readonly value: number
}

/** Every counter and gauge in one snapshot: counters are totals plus what is not folded yet. */
export async function readMetrics(sql: Sql): Promise<readonly MetricRow[]> {
  return readMetricRows(await sql(METRICS, []))
}

/** Reads the `metric` rows of a call. */
export function readMetricRows(rows: readonly Row[]): readonly MetricRow[] {
  return data<MetricRow>(rows, 'metric').map((row) => row.data)
}

const METRICS = `
  select m.kind, m.id::text as id, m.data::text as data, m.payload
  from tidegate.metrics() as m
  where clock_timestamp() is not null`
