import { closeSync, openSync, writeSync } from 'node:fs'
import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Pool } from 'pg'

import type { JournalRows } from './journal-tables.ts'

/** An append-only file of what one process saw and did, written before it goes on. */
export interface Journal {
  readonly write: <Table extends keyof JournalRows>(table: Table, row: JournalRows[Table]) => void
  readonly close: () => void
}

/**
 * Opens a journal. Every line is one write to a file opened with O_APPEND, so that it survives whatever kills
 * the process right after it, and never lies there by half.
 */
export function openJournal(file: string): Journal {
  const handle = openSync(file, 'a')
  return {
    write: (table, row) => void writeSync(handle, `${JSON.stringify([table, row])}\n`),
    close: () => closeSync(handle),
  }
}

/** Moves all journals of a folder into the tables of schema `soak`, and empties them. */
export async function loadJournals(folder: string, pool: Pool): Promise<void> {
  const files = (await readdir(folder)).filter((name) => name.endsWith('.jsonl'))
  const tables = new Map<string, object[]>()
  for (const file of files) {
    const lines = (await readFile(join(folder, file), 'utf8')).split('\n')
    for (const line of lines.filter((line) => line !== '')) {
      const [table, row] = JSON.parse(line) as [keyof JournalRows, object]
      const rows = tables.get(table) ?? []
      rows.push(row)
      tables.set(table, rows)
    }
  }
  for (const [table, rows] of tables) await insert(pool, table, rows)
  await Promise.all(files.map((file) => rm(join(folder, file))))
}

const ROWS_A_STATEMENT = 5_000

async function insert(pool: Pool, table: string, rows: readonly object[]): Promise<void> {
  for (let from = 0; from < rows.length; from += ROWS_A_STATEMENT) {
    // A table's name cannot be a parameter; this one comes from our own journals.
    const text = `insert into soak.${table}
      select r.* from jsonb_populate_recordset(null::soak.${table}, $1::jsonb) as r`
    await pool.query(text, [JSON.stringify(rows.slice(from, from + ROWS_A_STATEMENT))])
  }
}
