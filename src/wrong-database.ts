import type { Ownership } from './store/work.ts'

/** Names both sides of a database that is not ours (G11). */
export function wrongDatabase(ownership: Ownership): string {
  const side = (environment: string | null, branch: string | null) =>
    `environment ${JSON.stringify(environment)}${branch === null ? '' : ` on branch ${branch}`}`
  return (
    `the database belongs to ${side(ownership.recordedEnvironment, ownership.recordedBranchId)}, ` +
    `this root to ${side(ownership.environment, ownership.branchId)}; nothing was run`
  )
}
