import type { Sql } from '../db/sql.ts'

/** Remembers how the push of `sequence` went; one that went well ends its right to push. Repeating it changes nothing. */
export async function pushed(sql: Sql, sequence: number, error: string | null): Promise<void> {
  await sql(PUSHED, [sequence, error])
}

const PUSHED = `
  select tidegate.pushed($1::bigint, $2::text)::text as pushed
  where clock_timestamp() is not null`
