import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import Postgrator from 'postgrator'

import { expectFileNames, fileNameOf, globOf } from './migration-files.ts'

/**
 * All migrations as one SQL script, for who applies them with a tool of their own: on a database without the schema
 * it leaves what `migrate` leaves, its records included, so that `migrate` can go on from there.
 */
export async function migrationScript(directory: string, environment: string): Promise<string> {
  await expectFileNames(directory)
  const postgrator = new Postgrator({ driver: 'pg', migrationPattern: globOf(directory), newline: 'LF' })
  const files = (await postgrator.getMigrations()).toSorted((a, b) => a.version - b.version)
  const bodies = await Promise.all(
    files.map(async (file) => {
      const sql = await readFile(join(directory, fileNameOf(file)), 'utf8')
      const record = [file.version, literal(file.name), literal(file.md5), 'now()'].join(', ')
      return `-- ${fileNameOf(file)}\n${sql}\ninsert into tidegate.migrations (version, name, md5, run_at) values (${record});\n`
    }),
  )
  return `${HEAD}\n${bodies.join('\n')}\n${tail(environment)}`
}

// The table as postgrator makes it.
const HEAD = `begin;
create schema if not exists tidegate;
create table tidegate.migrations (version bigint primary key, name text, md5 text, run_at timestamp with time zone);
insert into tidegate.migrations (version, name, md5, run_at) values (0, null, null, now());
`

function tail(environment: string): string {
  return `insert into tidegate.meta (environment, branch_id)
values (${literal(environment)}, current_setting('neon.branch_id', true))
on conflict do nothing;
commit;
`
}

function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}
