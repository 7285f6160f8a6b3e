import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, expect, test } from 'vitest'

import { migrate, migrationLock } from '../../src/migrate.ts'
import { createEmptyDatabase, type TestDatabase } from '../support/database.ts'

const run = promisify(execFile)

const first = `
create table tidegate.meta (
  singleton boolean not null default true primary key check (singleton),
  environment text not null,
  branch_id text
);
create table tidegate.fish (name text);
`

let database: TestDatabase
let directory: string

beforeEach(async () => {
  database = await createEmptyDatabase()
  // Characters that mean something in a glob.
  directory = await mkdtemp(join(tmpdir(), 'tidegate [a-z] {x,y} (1)+-'))
  await write('0001.do.tables.sql', first)
})

afterEach(async () => {
  await database.close()
  await rm(directory, { recursive: true })
})

test('files are applied in order and recorded with their checksums', async () => {
  await write(
    '0002.do.boats.sql',
    'create table tidegate.boats (fish text); insert into tidegate.fish values (null)',
  )
  await database.query(`alter database ${database.name} set timezone = 'Asia/Tokyo'`)
  const before = Date.now()

  expect(await apply()).toEqual({ applied: ['0001.do.tables.sql', '0002.do.boats.sql'], newer: [] })

  expect(await records()).toEqual([
    { version: 1, name: 'tables', md5: createHash('md5').update(first).digest('hex') },
    { version: 2, name: 'boats', md5: expect.stringMatching(/^[0-9a-f]{32}$/) },
  ])
  const [late] = await database.query<{ run_at: Date }>(
    'select max(run_at) as run_at from tidegate.migrations',
  )
  expect(Math.abs((late?.run_at.getTime() ?? 0) - before)).toBeLessThan(60_000)
})

test('a second call finds nothing to do', async () => {
  await apply()
  expect(await apply()).toEqual({ applied: [], newer: [] })
})

test('a later file is applied alone', async () => {
  await apply()
  await write('0002.do.boats.sql', 'create table tidegate.boats ()')
  expect((await apply()).applied).toEqual(['0002.do.boats.sql'])
})

test('the environment is recorded once and never overwritten', async () => {
  await apply({ environment: 'preview' })
  await apply({ environment: 'production' })
  expect(await database.query('select environment, branch_id from tidegate.meta')).toEqual([
    { environment: 'preview', branch_id: null },
  ])
})

test('the branch is recorded where the server names one', async () => {
  await database.query(`alter database ${database.name} set neon.branch_id = 'br-1'`)
  await apply()
  expect(await database.query('select branch_id from tidegate.meta')).toEqual([{ branch_id: 'br-1' }])
})

test('of two first runs at once, one applies and one finds nothing to do', async () => {
  await database.query(
    `alter database ${database.name} set default_transaction_isolation = 'repeatable read'`,
  )
  const holder = await database.connect()
  await holder.query('select pg_advisory_lock($1)', [migrationLock])
  const both = [apply(), apply()]
  await untilWaiting(2)

  await holder.query('select pg_advisory_unlock($1)', [migrationLock])

  const applied = (await Promise.all(both)).map((result) => result.applied.length)
  expect(applied.toSorted((a, b) => a - b)).toEqual([0, 1])
  expect(await records()).toHaveLength(1)
})

test('a lock that does not come in time is an error that names the lock timeout', async () => {
  const holder = await database.connect()
  await holder.query('select pg_advisory_lock($1)', [migrationLock])
  await expect(apply({ lockTimeoutMs: 20 })).rejects.toThrow(
    'another migration is running, and did not end within the lock timeout of 20 ms',
  )
  expect(await schemaExists()).toBe(false)
})

test('a file that waits too long for a table fails by name', async () => {
  await apply()
  const holder = await database.connect()
  await holder.query('begin; lock table tidegate.fish')
  await write('0002.do.rename.sql', 'alter table tidegate.fish rename to whales')
  await expect(apply({ lockTimeoutMs: 20 })).rejects.toThrow(
    /^migration 0002\.do\.rename\.sql failed: .*lock timeout/,
  )
})

test('an applied file that has changed is refused by name, and nothing else is applied', async () => {
  await apply()
  await write('0001.do.tables.sql', `${first} -- changed`)
  await write('0002.do.boats.sql', 'create table tidegate.boats ()')
  await expect(apply()).rejects.toThrow(
    'migration 0001.do.tables.sql has changed since it was applied: applied migrations must not change, write a new file instead',
  )
  expect(await records()).toHaveLength(1)
})

test('line ends of another checkout are no change', async () => {
  await apply()
  await write('0001.do.tables.sql', first.replaceAll('\n', '\r\n'))
  expect((await apply()).applied).toEqual([])
})

test('a failing file leaves nothing behind, not even the files before it', async () => {
  await write('0002.do.broken.sql', 'create table tidegate.boats (); select 1 / 0')
  await expect(apply()).rejects.toThrow('migration 0002.do.broken.sql failed: division by zero')
  expect(await schemaExists()).toBe(false)
})

test('a file that comes after a later one was applied is refused', async () => {
  await write('0003.do.boats.sql', 'create table tidegate.boats ()')
  await apply()
  await write('0002.do.nets.sql', 'create table tidegate.nets ()')
  await expect(apply()).rejects.toThrow('migration 0002.do.nets.sql comes after 3 was applied')
})

test('a missing file between applied ones is refused', async () => {
  await write('0002.do.boats.sql', 'create table tidegate.boats ()')
  await write('0003.do.nets.sql', 'create table tidegate.nets ()')
  await apply()
  await rm(join(directory, '0002.do.boats.sql'))
  await expect(apply()).rejects.toThrow(
    'expected the file of the applied migration 0002.do.boats.sql, found none',
  )
})

test('a database that is newer than the files is left alone and said to be newer', async () => {
  await write('0002.do.boats.sql', 'create table tidegate.boats ()')
  await apply()
  await rm(join(directory, '0002.do.boats.sql'))
  await database.query('delete from tidegate.meta')

  expect(await apply()).toEqual({ applied: [], newer: ['0002.do.boats.sql'] })

  expect(await database.query('select environment from tidegate.meta')).toEqual([])
})

test('a file name that would be passed over is refused', async () => {
  await write('boats.sql', 'create table tidegate.boats ()')
  await expect(apply()).rejects.toThrow('expected migration files like 0001.do.tables.sql, got boats.sql')
})

test('two processes at once migrate our own files once', async () => {
  const outputs = await Promise.all([runScript(), runScript()])
  const lines = outputs.flatMap(({ stdout }) => stdout.trim().split('\n'))
  expect(lines.filter((line) => line === 'applied 0001.do.tables.sql')).toHaveLength(1)
  expect(lines.filter((line) => line === 'nothing to do')).toHaveLength(1)
  expect(await database.query('select environment from tidegate.meta')).toEqual([{ environment: 'staging' }])
})

test('the script says what is wrong in one line without the password', async () => {
  const url = new URL(database.url)
  url.password = 'secret'
  const failure = await runScript({ DATABASE_URL: url.href }).catch((error: unknown) => error)
  expect(failure).toMatchObject({
    code: 1,
    stdout: '',
    stderr:
      'migrate: could not connect to the database: password authentication failed for user "tidegate"\n',
  })
})

async function apply(options: { environment?: string; lockTimeoutMs?: number } = {}) {
  return migrate({ url: database.url, environment: 'test', directory, ...options })
}

async function write(name: string, text: string): Promise<void> {
  await writeFile(join(directory, name), text)
}

async function records() {
  return database.query(
    'select version::integer, name, md5 from tidegate.migrations where version > 0 order by version',
  )
}

async function schemaExists(): Promise<boolean> {
  return (await database.query(`select where to_regnamespace('tidegate') is not null`)).length > 0
}

async function untilWaiting(sessions: number): Promise<void> {
  const text = `
    select from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock' and wait_event = 'advisory'
  `
  while ((await database.query(text)).length < sessions);
}

async function runScript(env: NodeJS.ProcessEnv = { DATABASE_URL: database.url }) {
  return run(process.execPath, ['scripts/migrate.ts'], { env: { TIDEGATE_ENV: 'staging', ...env } })
}
