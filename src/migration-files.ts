import { readdir } from 'node:fs/promises'
import { sep } from 'node:path'

const fileName = /^\d{4}\.do\.[a-z0-9_-]+\.sql$/

/** A migration, as a file or as a row of `tidegate.migrations`. */
export interface Migration {
  readonly version: number
  readonly name: string
  readonly md5: string
}

/** The name of a migration's file. */
export function fileNameOf({ version, name }: Pick<Migration, 'version' | 'name'>): string {
  return `${String(version).padStart(4, '0')}.do.${name}.sql`
}

/** Throws unless the folder has migrations, all of them named `0001.do.<name>.sql`. */
export async function expectFileNames(directory: string): Promise<void> {
  const names = (await readdir(directory)).filter((name) => name.endsWith('.sql'))
  // postgrator passes over a name that it cannot read, without a word.
  const odd = names.find((name) => !fileName.test(name))
  if (odd !== undefined) throw new Error(`expected migration files like 0001.do.tables.sql, got ${odd}`)
  if (names.length === 0) throw new Error(`expected migration files in ${directory}, found none`)
}

/**
 * Throws when files and records tell different stories of the same past: an applied file has changed or is
 * missing, or a file turns up that a later one has overtaken. Records beyond the newest file are no conflict.
 */
export function expectAgreement(files: readonly Migration[], records: readonly Migration[]): void {
  const newestFile = newestOf(files)
  const newestRecord = newestOf(records)
  for (const record of records) {
    const file = files.find(({ version }) => version === record.version)
    if (file === undefined && record.version < newestFile) {
      throw new Error(`expected the file of the applied migration ${fileNameOf(record)}, found none`)
    }
    if (file !== undefined && file.md5 !== record.md5) {
      throw new Error(
        `migration ${fileNameOf(file)} has changed since it was applied: ` +
          'applied migrations must not change, write a new file instead',
      )
    }
  }
  const applied = new Set(records.map(({ version }) => version))
  const late = files.find(({ version }) => version < newestRecord && !applied.has(version))
  if (late !== undefined) {
    throw new Error(
      `migration ${fileNameOf(late)} comes after ${newestRecord} was applied: give it a higher number`,
    )
  }
}

/** The highest version, 0 when there is none. */
export function newestOf(migrations: readonly Migration[]): number {
  return Math.max(0, ...migrations.map(({ version }) => version))
}

/** A glob that matches the files of a folder, whatever characters its path contains. */
export function globOf(directory: string): string {
  const path =
    sep === '/' ? directory.replaceAll(/[\\?*+@!()[\]{}|]/g, '\\$&') : directory.replaceAll(sep, '/')
  return `${path}/*.sql`
}
