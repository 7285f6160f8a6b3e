import { readdir } from 'node:fs/promises'
import { afterEach, expect, test, vi } from 'vitest'

import { openPg } from '../../src/db/pg.ts'
import { SCHEMA_VERSIONS } from '../../src/store/ready.ts'
import { as, json, openApi, type Api } from '../support/api.ts'
import { createEmptyDatabase } from '../support/database.ts'

let api: Api

afterEach(async () => {
  vi.useRealTimers()
  await api.close()
})

const ready = (headers: Record<string, string> = as('enqueue')) => api.send('/readyz', { headers })

async function problems(): Promise<unknown> {
  const response = await ready()
  expect(response.status).toBe(503)
  const body = await json(response)
  expect(body).toMatchObject({ code: 'not_ready', error: expect.stringMatching(/^not ready: /) as unknown })
  return body.problems
}

test('alive is whatever can answer, without asking the database', async () => {
  api = await openApi()
  const response = await api.send('/healthz')
  expect(response.status).toBe(200)
  expect(await json(response)).toEqual({ status: 'ok' })
  expect(api.databases.opened).toBe(0)
})

test('ready tells how the database stands', async () => {
  api = await openApi()
  const response = await ready()
  expect(response.status).toBe(200)
  const before = {
    status: 'ok',
    environment: 'test',
    paused: false,
    schema_version: SCHEMA_VERSIONS.oldest,
    expired_leases: 0,
  }
  expect(await json(response)).toEqual(before)
  await api.send('/tick', { headers: as('cron') })
  expect(await json(ready())).toEqual({ ...before, last_tick_age_seconds: expect.any(Number) as unknown })
})

test('the newest schema of this release is the last file of migrations/', async () => {
  api = await openApi()
  const files = (await readdir('migrations')).filter((name) => name.endsWith('.sql')).sort()
  expect(Number(files.at(-1)?.slice(0, 4))).toBe(SCHEMA_VERSIONS.oldest)
})

test('a database that cannot be reached is not ready, and only the log says more', async () => {
  api = await openApi(() => ({
    openDatabase: () => openPg({ url: 'postgres://nobody@127.0.0.1:1/nothing' }),
  }))
  expect(await problems()).toEqual(['the database cannot be reached'])
  expect(api.log).toContainEqual(
    expect.objectContaining({ event: 'readiness check failed', kind: 'transient' }),
  )
})

test('a database that there is not refuses', async () => {
  api = await openApi(({ url }) => ({ openDatabase: () => openPg({ url: `${url}_not` }) }))
  expect(await problems()).toEqual(['the database refuses to answer'])
})

test('a database without the schema is not ready', async () => {
  api = await openApi(undefined, createEmptyDatabase)
  expect(await problems()).toEqual(['the database has no schema of this release: run `npm run migrate`'])
})

test('a schema out of range is not ready', async () => {
  api = await openApi()
  const { oldest, newest } = SCHEMA_VERSIONS
  await api.db.query('delete from tidegate.migrations where version >= $1', [oldest])
  expect(await problems()).toEqual([
    `expected a schema of version ${oldest} to ${newest}, got ${oldest - 1}: run \`npm run migrate\``,
  ])
  await api.db.query(`insert into tidegate.migrations (version, name) values ($1, 'later')`, [newest + 1])
  expect(await problems()).toEqual([
    `expected a schema of version ${oldest} to ${newest}, got ${newest + 1}: deploy a newer release`,
  ])
})

test('the database of another environment is not ready and both are named', async () => {
  api = await openApi()
  await api.db.query(`update tidegate.meta set environment = 'production'`)
  expect(await problems()).toEqual([
    'the database belongs to environment "production", this root to environment "test"; nothing was run',
  ])
})

test('another isolation level is not ready', async () => {
  api = await openApi()
  await api.db.query(`alter database ${api.db.name} set default_transaction_isolation = 'repeatable read'`)
  expect(await problems()).toEqual(['expected the isolation level read committed, got repeatable read'])
})

test('without a token of scope enqueue or operator the answer is the last one, for half a minute', async () => {
  api = await openApi()
  vi.useFakeTimers({ toFake: ['Date'], now: 1_000_000 })
  expect((await ready({})).status).toBe(200)
  await api.db.query(`update tidegate.meta set environment = 'production'`)
  vi.setSystemTime(1_029_999)
  for (const headers of [{}, as('cron'), { Authorization: 'Bearer wrong' }]) {
    expect((await ready(headers)).status).toBe(200)
  }
  expect(api.databases.opened).toBe(1)
  vi.setSystemTime(1_030_000)
  expect((await ready({})).status).toBe(503)
  expect(api.databases.opened).toBe(2)
})

test('with a token the answer is fresh, and from then on the one that others get', async () => {
  api = await openApi()
  vi.useFakeTimers({ toFake: ['Date'], now: 1_000_000 })
  expect((await ready({})).status).toBe(200)
  await api.db.query(`update tidegate.meta set environment = 'production'`)
  expect((await ready(as('operator'))).status).toBe(503)
  expect((await ready({})).status).toBe(503)
  expect(api.databases).toEqual({ opened: 2, closed: 2 })
})
