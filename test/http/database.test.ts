import { afterEach, expect, test } from 'vitest'

import { openPg } from '../../src/db/pg.ts'
import type { HttpDependencies } from '../../src/http/route.ts'
import { as, json, openApi, type Api } from '../support/api.ts'
import { createDatabase, createEmptyDatabase, type TestDatabase } from '../support/database.ts'

let api: Api

afterEach(() => api.close())

const open = async (
  changed?: (db: TestDatabase) => Partial<HttpDependencies>,
  create: () => Promise<TestDatabase> = createDatabase,
) => {
  api = await openApi(changed, create)
}

const job = (key: string) => ({ type: 'test.echo', payload: {}, idempotency_key: key })
const id = '00000000-0000-7000-8000-000000000000'

test('a request opens one database at most, at its first statement, and closes it in any case', async () => {
  await open()
  await api.send('/healthz')
  await api.post('/jobs', { type: '' })
  expect(api.databases).toEqual({ opened: 0, closed: 0 })
  await api.post('/jobs', job('a'))
  expect(api.databases).toEqual({ opened: 1, closed: 1 })
  await api.post('/jobs', { ...job('b'), type: 'nobody.has.it' })
  expect(api.databases).toEqual({ opened: 2, closed: 2 })
})

test('where the runtime keeps the invocation alive, the answer does not wait for the close', async () => {
  const kept: Promise<unknown>[] = []
  let end: () => void = () => undefined
  const ended = new Promise<void>((resolve) => (end = resolve))
  await open(({ url }) => ({
    openDatabase: () => {
      const database = openPg({ url })
      return { ...database, close: () => ended.then(() => database.close()) }
    },
  }))
  const context = { waitUntil: (work: Promise<unknown>) => void kept.push(work) }
  const response = await api.send(`/jobs/${id}`, { headers: as('enqueue') }, context)
  expect(response.status).toBe(404)
  expect(kept).toHaveLength(1)
  end()
  await kept[0]
})

test('a key that an open transaction holds is busy', async () => {
  await open()
  // The function's own limit is two seconds; what it does then is the same.
  await api.db.query(`alter function tidegate.enqueue set lock_timeout = '50ms'`)
  const holder = await api.db.connect()
  await holder.query(`begin; select tidegate.enqueue('test.echo', '{}', 'held')`)
  const response = await api.post('/jobs', job('held'))
  expect(response.status).toBe(503)
  expect(response.headers.get('Retry-After')).toBe('1')
  expect(await json(response)).toEqual({
    code: 'key_busy',
    error: 'an open transaction holds the idempotency key, try again',
  })
  await holder.query('commit')
  expect((await api.post('/jobs', job('held'))).status).toBe(200)
})

test('an enqueue whose connection breaks says that its outcome is unknown, and may be repeated', async () => {
  await open()
  const holder = await api.db.connect()
  await holder.query(`begin; select tidegate.enqueue('test.echo', '{}', 'cut')`)
  const answer = api.post('/jobs', job('cut'))
  await killWaiting()
  const response = await answer
  expect(response.status).toBe(503)
  expect(response.headers.get('Retry-After')).toBe('1')
  expect(await json(response)).toEqual({
    code: 'outcome_unknown',
    error: 'the job may or may not have been stored: repeat the request with the same idempotency key',
  })
  await holder.query('rollback')
  expect((await api.post('/jobs', job('cut'))).status).toBe(201)
})

test('any other statement whose connection breaks may be repeated as it is', async () => {
  await open()
  const holder = await api.db.connect()
  await holder.query('begin; lock table tidegate.jobs in access exclusive mode')
  const answer = api.send(`/jobs/${id}`, { headers: as('enqueue') })
  await killWaiting()
  const response = await answer
  expect(response.status).toBe(503)
  expect(response.headers.get('Retry-After')).toBe('5')
  expect(await json(response)).toMatchObject({ code: 'database_unavailable' })
})

test('a database that cannot be reached is unavailable, and the log says why', async () => {
  await open(() => ({ openDatabase: () => openPg({ url: 'postgres://nobody@127.0.0.1:1/nothing' }) }))
  const response = await api.post('/jobs', job('a'))
  expect(response.status).toBe(503)
  expect(response.headers.get('Retry-After')).toBe('5')
  expect(await json(response)).toEqual({
    code: 'database_unavailable',
    error: 'the database is not available, try again',
  })
  expect(api.log).toContainEqual(
    expect.objectContaining({ event: 'request failed', answer: 'database_unavailable', kind: 'transient' }),
  )
})

test('a database without the schema says how to get it', async () => {
  await open(undefined, createEmptyDatabase)
  for (const response of [
    await api.post('/jobs', job('a')),
    await api.send(`/jobs/${id}`, { headers: as('enqueue') }),
    await api.send(`/jobs/${id}/cancel`, { method: 'POST', headers: as('operator') }),
    await api.send('/metrics', { headers: as('operator') }),
  ]) {
    expect(response.status).toBe(503)
    expect(await json(response)).toEqual({
      code: 'schema_missing',
      error: 'the database has no schema of this release: run `npm run migrate`',
    })
  }
})

test('an error of the database that no repetition helps is ours', async () => {
  await open()
  await api.db.query('alter table tidegate.jobs add constraint broken check (priority <> 13)')
  const response = await api.post('/jobs', { ...job('a'), priority: 13 })
  expect(response.status).toBe(500)
  expect(await json(response)).toMatchObject({ code: 'internal' })
  expect(api.log).toContainEqual(expect.objectContaining({ event: 'request failed', code: '23514' }))
})

/** Ends the session that waits for a lock, as soon as one does. */
async function killWaiting(): Promise<void> {
  const kill = `
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`
  while ((await api.db.query(kill)).length === 0);
}
