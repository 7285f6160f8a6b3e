import type { Status } from '../core/job.ts'
import type { Settlement } from '../core/outcome.ts'
import type { Row, Sql } from '../db/sql.ts'

/** Who asks: the environment that the root believes it is in, and the id of its tick. */
export interface TickIdentity {
  readonly environment: string
  readonly tick: string
}

/** A lease to end, and how. */
export interface Settle {
  readonly id: string
  readonly token: string
  readonly settlement: Settlement
  /** From the start of the handler to its return; absent when it was never entered. */
  readonly durationMs?: number
  readonly followUps?: readonly FollowUp[]
  /** What a log line says of it besides; nothing of it is sent. */
  readonly type?: string
  readonly attempt?: number
}

/** A job that is inserted with the completion of another. `payload` is JSON text. */
export interface FollowUp {
  readonly type: string
  readonly payload: string
  readonly priority?: number
  readonly delayMs?: number
  readonly maxAttempts?: number
}

/**
 * What a settle came to: `settled` took effect; `already` did so in an earlier call with the same token;
 * `lost` found another lease, or no job, and changed nothing; `refused`: the database cannot make it, even without its
 * detail, and the lease stays.
 */
export interface Verdict {
  readonly verdict: 'settled' | 'already' | 'lost' | 'refused'
  /** The job's status now; null when it is gone. */
  readonly status: Status | null
}

/** How much to lease, and for how long. `token` is fresh for every claim. */
export interface Claim {
  readonly token: string
  readonly limit: number
  /** Bytes of payload after which no further row is taken. */
  readonly bytes: number
  readonly leaseMs: number
  readonly types: readonly string[]
  /** Take rows that a crash has marked instead of ordinary ones. */
  readonly suspects: boolean
  /** Lease nothing while a suspect of one of these types is due. */
  readonly yieldTo: readonly string[]
}

/** A lease as its holder, or whoever recovers it, knows it. */
export interface Lease {
  readonly id: string
  readonly token: string
  readonly type: string
  readonly attempt: number
  readonly maxAttempts: number
  readonly suspect: boolean
}

/** A job that the call has leased. `payload` is JSON text. */
export interface LeasedJob extends Lease {
  readonly payload: string
  readonly traceparent: string | null
  /** Milliseconds from due to leased, by the database's clock. */
  readonly waitedMs: number
}

/** Whose database this is; see `tidegate.whose`. */
export interface Ownership {
  readonly matches: boolean
  readonly paused: boolean
  readonly environment: string
  readonly branchId: string | null
  readonly recordedEnvironment: string | null
  readonly recordedBranchId: string | null
}

/** One step of a tick. */
export interface WorkRequest extends TickIdentity {
  /** The types of this root, recorded in the database; with the first step of a tick. */
  readonly register?: readonly {
    readonly type: string
    readonly timeoutMs: number
    readonly maxAttempts: number
  }[]
  /** All types of this root, of which a due suspect is reported. */
  readonly types: readonly string[]
  readonly settles: readonly Settle[]
  readonly claim?: Claim
  /** The token of a call whose answer was lost: nothing new is leased, the rows that carry it are returned. */
  readonly recover?: string
  /** Leases still held, to learn which must stop. */
  readonly held: readonly { readonly id: string; readonly token: string }[]
  /** How many expired leases to report. */
  readonly expired: number
  /** Do nothing unless this is the one kick under way. */
  readonly kick?: { readonly token: string; readonly leaseMs: number }
}

/** What one step answered. */
export interface WorkAnswer {
  readonly ownership: Ownership
  readonly verdicts: ReadonlyMap<string, Verdict>
  readonly jobs: readonly LeasedJob[]
  readonly aborts: readonly { readonly id: string; readonly reason: 'cancelled' | 'lost' }[]
  readonly expired: readonly Lease[]
  readonly dueSuspectType: string | undefined
  /** False when another kick is under way; it has been told to look again, and nothing was done here. */
  readonly kickTaken: boolean
}

/** Settles what has finished, then leases into the free slots: one call, in that order. */
export async function work(sql: Sql, request: WorkRequest): Promise<WorkAnswer> {
  const rows = await sql(WORK, [JSON.stringify(workWire(request))])
  const ownership = readOwnership(rows)
  return {
    ownership,
    verdicts: readVerdicts(rows),
    jobs: data<LeaseData>(rows, 'job').map(({ id, data, payload }) => ({
      ...readLease(id, data),
      payload,
      traceparent: data.traceparent,
      waitedMs: data.waited_ms,
    })),
    aborts: data<{ reason: 'cancelled' | 'lost' }>(rows, 'abort').map(({ id, data }) => ({
      id,
      reason: data.reason,
    })),
    expired: data<LeaseData>(rows, 'expired').map(({ id, data }) => readLease(id, data)),
    dueSuspectType: data<{ type: string }>(rows, 'suspect')[0]?.data.type,
    kickTaken: data<{ taken: boolean }>(rows, 'kick')[0]?.data.taken !== false,
  }
}

/**
 * The first of these settles that one call should carry: about `bytes` of them as they travel, and always one. The
 * rest is for the next call, for proxies refuse requests of some size (Neon's over 10 MiB).
 */
export function firstSettles(settles: readonly Settle[], bytes: number): readonly Settle[] {
  let size = 0
  const end = settles.findIndex((settle) => {
    size += roughSize(settle)
    return size > bytes
  })
  return end === -1 ? settles : settles.slice(0, Math.max(end, 1))
}

/** Names, ids and numbers, and texts as if every character of them were escaped. */
function roughSize({ settlement, followUps = [] }: Settle): number {
  const result = settlement.kind === 'complete' ? settlement.result : undefined
  const error = 'error' in settlement ? settlement.error : undefined
  const jobs = followUps.reduce((sum, { payload }) => sum + 200 + 2 * payload.length, 0)
  return 400 + 2 * ((result?.length ?? 0) + (error?.length ?? 0)) + jobs
}

/** The rows of one kind, with their JSON column parsed each by itself. */
export function data<Data>(
  rows: readonly Row[],
  kind: string,
): { id: string; data: Data; payload: string }[] {
  return rows
    .filter((row) => row.kind === kind)
    .map((row) => ({
      id: String(row.id),
      data: JSON.parse(String(row.data)) as Data,
      payload: String(row.payload),
    }))
}

/** Reads the `meta` row, which every call of a tick answers first. */
export function readOwnership(rows: readonly Row[]): Ownership {
  const [meta] = data<OwnershipData | null>(rows, 'meta')
  return {
    matches: meta?.data?.matches === true,
    paused: meta?.data?.paused === true,
    environment: meta?.data?.environment ?? '',
    branchId: meta?.data?.branch_id ?? null,
    recordedEnvironment: meta?.data?.recorded_environment ?? null,
    recordedBranchId: meta?.data?.recorded_branch_id ?? null,
  }
}

/** Reads the `verdict` rows, by job id. */
export function readVerdicts(rows: readonly Row[]): ReadonlyMap<string, Verdict> {
  return new Map(data<Verdict>(rows, 'verdict').map(({ id, data }) => [id, data]))
}

/** A settle as `tidegate.settle` takes it. */
export function settleWire({ id, token, settlement, durationMs, followUps }: Settle): object {
  const failed = settlement.kind === 'retry' || settlement.kind === 'dead'
  return {
    id,
    token,
    kind: settlement.kind,
    delay_ms: 'delayMs' in settlement ? settlement.delayMs : undefined,
    held: failed ? settlement.held : undefined,
    crashed: failed ? settlement.crashed : undefined,
    outcome: 'outcome' in settlement ? settlement.outcome : undefined,
    error: failed ? settlement.error : undefined,
    code: failed ? settlement.code : undefined,
    result: settlement.kind === 'complete' ? settlement.result : undefined,
    duration_us: durationMs === undefined ? undefined : Math.round(durationMs * 1000),
    follow_ups: followUps?.map((job) => ({
      type: job.type,
      payload: job.payload,
      priority: job.priority,
      delay_ms: job.delayMs,
      max_attempts: job.maxAttempts,
    })),
  }
}

function workWire(request: WorkRequest): object {
  const { claim } = request
  return {
    environment: request.environment,
    tick: request.tick,
    register: request.register?.map((type) => ({
      type: type.type,
      timeout_ms: type.timeoutMs,
      max_attempts: type.maxAttempts,
    })),
    types: request.types,
    settle: request.settles.map(settleWire),
    claim: claim && {
      token: claim.token,
      limit: claim.limit,
      bytes: claim.bytes,
      lease_ms: Math.ceil(claim.leaseMs),
      types: claim.types,
      suspects: claim.suspects,
      yield_to: claim.yieldTo,
    },
    recover: request.recover,
    held: request.held.map(({ id, token }) => ({ id, token })),
    expired: request.expired,
    kick: request.kick && { token: request.kick.token, lease_ms: Math.ceil(request.kick.leaseMs) },
  }
}

interface OwnershipData {
  readonly matches: boolean | null
  readonly paused: boolean
  readonly environment: string
  readonly branch_id: string | null
  readonly recorded_environment: string
  readonly recorded_branch_id: string | null
}

interface LeaseData {
  readonly type: string
  readonly attempt: number
  readonly max_attempts: number
  readonly token: string
  readonly suspect: boolean
  readonly traceparent: string | null
  readonly waited_ms: number
}

function readLease(id: string, lease: LeaseData): Lease {
  return {
    id,
    token: lease.token,
    type: lease.type,
    attempt: lease.attempt,
    maxAttempts: lease.max_attempts,
    suspect: lease.suspect,
  }
}

const WORK = `
  select w.kind, w.id::text as id, w.data::text as data, w.payload
  from tidegate.work($1::jsonb) as w
  where clock_timestamp() is not null`
