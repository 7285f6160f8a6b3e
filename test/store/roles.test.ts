import { join } from 'node:path'

import { afterAll, beforeAll, describe, expect, it } from 'vitest'

import { readMigrateUrl } from '../../src/migrate-url.ts'
import { migrate } from '../../src/migrate.ts'
import { migrationScript } from '../../src/migration-script.ts'
import { ROLES_SQL } from '../../src/roles.ts'
import { createDatabase, createEmptyDatabase, type TestDatabase } from '../support/database.ts'
import { createRegistry } from '../../src/registry.ts'
import { createLogger } from '../../src/log.ts'
import { openPg } from '../../src/db/pg.ts'
import { statement } from '../../src/client.ts'
import { getJob } from '../../src/store/get.ts'
import { requeue, cancel } from '../../src/store/operate.ts'
import { tick } from '../../src/tick.ts'
import { TICK_SETTINGS } from '../../src/tick-options.ts'
import { job } from '../support/tick.ts'

const directory = join(import.meta.dirname, '..', '..', 'migrations')

describe('the three roles', () => {
  let db: TestDatabase
  const urls = new Map<string, string>()
  beforeAll(async () => {
    db = await createDatabase()
    await db.query(ROLES_SQL)
    await db.query(ROLES_SQL)
    for (const role of ['producer', 'worker', 'operator']) {
      const user = `${role}_of_${db.name}`
      await db.query(`create user ${user} password 'secret' in role tidegate_${role}`)
      const url = new URL(db.url)
      url.username = user
      url.password = 'secret'
      urls.set(role, url.href)
    }
  })
  afterAll(async () => {
    for (const role of urls.keys()) await db.query(`drop user ${role}_of_${db.name}`)
    await db.close()
  })

  const as = (role: string) => openPg({ url: urls.get(role) ?? '' })

  it('a producer enqueues, and can do nothing else', async () => {
    const producer = as('producer')
    const { text, params } = statement('t', { n: 1 }, { key: 'by-producer' })
    await expect(producer.sql(text, params)).resolves.toMatchObject([{ outcome: 'created' }])
    await expect(producer.sql(text, params)).resolves.toMatchObject([{ outcome: 'replayed' }])
    for (const forbidden of [
      'select from tidegate.jobs',
      'delete from tidegate.jobs',
      'select from tidegate.meta',
      "select tidegate.requeue(tidegate.uuid7(), 'me')",
      "select tidegate.work('{}')",
    ]) {
      await expect(producer.sql(forbidden, [])).rejects.toMatchObject({ kind: 'definite', code: '42501' })
    }
    await producer.close()
  })

  it('a worker serves the API and ticks, and cannot touch the migrations', async () => {
    const dependencies = {
      registry: createRegistry([job(() => 'done')]),
      openDatabase: () => as('worker'),
      env: {},
      environment: 'test',
      settings: TICK_SETTINGS,
      log: createLogger('silent'),
      push: async () => null,
    }
    await expect(tick(dependencies, { windowMs: 20_000 })).resolves.toMatchObject({
      completed: 1,
      stopped: 'empty',
    })
    const worker = as('worker')
    await expect(worker.sql('delete from tidegate.migrations', [])).rejects.toMatchObject({ code: '42501' })
    await expect(worker.sql('drop table tidegate.jobs', [])).rejects.toMatchObject({ code: '42501' })
    await worker.close()
  })

  it('an operator reads, cancels and requeues, and cannot delete or change settings of the schema', async () => {
    const operator = as('operator')
    const { text, params } = statement('u', {}, { key: 'by-operator' })
    const [row] = await operator.sql(text, params)
    const id = String(row?.id)
    await expect(cancel(operator.sql, id)).resolves.toMatchObject({ outcome: 'ok' })
    await expect(requeue(operator.sql, id, 'ann')).resolves.toMatchObject({ outcome: 'ok' })
    await expect(getJob(operator.sql, id)).resolves.toMatchObject({ job: { status: 'pending' } })
    await expect(operator.sql('delete from tidegate.jobs', [])).rejects.toMatchObject({ code: '42501' })
    await operator.close()
  })
})

describe('migrations as a script', () => {
  it('leave what migrate leaves, and migrate goes on from there', async () => {
    const [scripted, migrated] = [await createEmptyDatabase(), await createEmptyDatabase()]
    await scripted.query(await migrationScript(directory, "o'brien"))
    await expect(migrate({ url: scripted.url, environment: 'other' })).resolves.toEqual({
      applied: [],
      newer: [],
    })
    await migrate({ url: migrated.url, environment: "o'brien" })
    const describe_ = (db: TestDatabase) =>
      db.query(`
        select c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull
        from pg_class as c join pg_attribute as a on a.attrelid = c.oid
        where c.relnamespace = 'tidegate'::regnamespace and a.attnum > 0
        order by 1, a.attnum`)
    await expect(describe_(scripted)).resolves.toEqual(await describe_(migrated))
    await expect(scripted.query('select environment from tidegate.meta')).resolves.toEqual([
      { environment: "o'brien" },
    ])
    await scripted.close()
    await migrated.close()
  })
})

describe('the URL of a migration', () => {
  it('is the unpooled one, and never a pooler', () => {
    const pooled = 'postgres://u:secret@ep-x-pooler.eu.aws.neon.tech/db'
    const direct = 'postgres://u:secret@ep-x.eu.aws.neon.tech/db'
    expect(readMigrateUrl({ DATABASE_URL: pooled, DATABASE_URL_UNPOOLED: direct })).toBe(direct)
    expect(readMigrateUrl({ DATABASE_URL_UNPOOLED: pooled, MIGRATE_DATABASE_URL: direct })).toBe(direct)
    expect(() => readMigrateUrl({ DATABASE_URL: pooled })).toThrow(
      /ep-x-pooler\.eu\.aws\.neon\.tech.*DATABASE_URL_UNPOOLED/,
    )
    expect(() => readMigrateUrl({ DATABASE_URL: pooled })).not.toThrow(/secret/)
  })
})
