import type { Sql } from '../db/sql.ts'
import { readMetricRows, type MetricRow } from './metrics.ts'
import {
  data,
  readOwnership,
  readVerdicts,
  settleWire,
  type Ownership,
  type Settle,
  type TickIdentity,
  type Verdict,
} from './work.ts'

/** How long finished jobs are kept, in seconds; null keeps them for ever. */
export interface Retention {
  readonly completedSeconds: number | null
  readonly cancelledSeconds: number | null
  readonly deadSeconds: number | null
}

/** The last step of a tick. */
export interface CloseRequest extends TickIdentity {
  readonly types: readonly string[]
  readonly settles: readonly Settle[]
  readonly retention: Retention
  /** Finished jobs of each status to delete at most. */
  readonly prune: number
  /** Counter changes to fold at most. */
  readonly fold: number
  /** What to remember of this tick; it is remembered once, however often the call is repeated. */
  readonly record: { readonly stopped: string; readonly durationMs: number; readonly report: object }
  /** Ask for the right to push metrics for that long. */
  readonly pushLeaseMs?: number
  /** The token of the kick that ends with this call. */
  readonly kick?: string
}

/** What the last step answered. */
export interface CloseAnswer {
  readonly ownership: Ownership
  readonly verdicts: ReadonlyMap<string, Verdict>
  readonly pruned: number
  readonly nextDueAt: string | null
  /** Whether a job of these types is due at this moment. */
  readonly more: boolean
  /** Whether an enqueue has asked for another look; the kick then goes on being the one under way. */
  readonly kickAgain: boolean
  /** The snapshot to push, when this tick may. */
  readonly push: { readonly sequence: number; readonly metrics: readonly MetricRow[] } | undefined
}

/** Settles the rest, prunes, folds counters, records the tick, and hands out the right to push metrics. */
export async function close(sql: Sql, request: CloseRequest): Promise<CloseAnswer> {
  const rows = await sql(CLOSE, [JSON.stringify(closeWire(request))])
  const [next] = data<{ due_at: string | null; due: boolean | null }>(rows, 'next')
  const [push] = data<{ sequence: number }>(rows, 'push')
  return {
    ownership: readOwnership(rows),
    verdicts: readVerdicts(rows),
    pruned: data<{ pruned: number }>(rows, 'pruned')[0]?.data.pruned ?? 0,
    nextDueAt: next?.data.due_at ?? null,
    more: next?.data.due === true,
    kickAgain: data<{ again: boolean }>(rows, 'kick')[0]?.data.again === true,
    push: push && { sequence: push.data.sequence, metrics: readMetricRows(rows) },
  }
}

function closeWire(request: CloseRequest): object {
  return {
    environment: request.environment,
    tick: request.tick,
    types: request.types,
    settle: request.settles.map(settleWire),
    retain: {
      completed_s: request.retention.completedSeconds,
      cancelled_s: request.retention.cancelledSeconds,
      dead_s: request.retention.deadSeconds,
    },
    prune: request.prune,
    fold: request.fold,
    record: {
      stopped: request.record.stopped,
      duration_ms: Math.round(request.record.durationMs),
      report: request.record.report,
    },
    push_lease_ms: request.pushLeaseMs,
    kick: request.kick,
  }
}

const CLOSE = `
  select c.kind, c.id::text as id, c.data::text as data, c.payload
  from tidegate.close($1::jsonb) as c
  where clock_timestamp() is not null`
