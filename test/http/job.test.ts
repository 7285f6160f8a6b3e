import { afterAll, beforeAll, expect, test } from 'vitest'

import { as, json, openApi, type Answer, type Api } from '../support/api.ts'

let api: Api

beforeAll(async () => {
  api = await openApi()
  await api.db.query(`
    insert into tidegate.types (type, timeout_ms, max_attempts, registered_at, changed_at)
    values ('test.echo', 1000, 5, now(), now())`)
})
afterAll(() => api.close())

const nobody = '00000000-0000-7000-8000-000000000000'

const get = (id: unknown) => api.send(`/jobs/${String(id)}`, { headers: as('enqueue') })
const operate = (verb: string, id: unknown) =>
  api.send(`/jobs/${String(id)}/${verb}`, {
    method: 'POST',
    headers: { Authorization: 'Bearer operator-secret-2' },
  })

/** A job that is in a state, by the columns that make it so. */
async function jobIn(columns: string, fields?: object): Promise<Answer> {
  const created = await api.enqueue(fields)
  await api.db.query(`update tidegate.jobs set ${columns} where id = $1`, [created.id])
  return created
}

const RUNNING = `status = 'running', attempts = 1, started_at = now(), lease_until = now() + interval '1 minute',
  lease_token = gen_random_uuid()`
const DEAD = `status = 'dead', attempts = max_attempts, died_at = now(), last_error = 'no luck', started_at = now()`
const COMPLETED = `status = 'completed', attempts = 1, completed_at = now(), started_at = now(), result = '{"n": 1}'`

test.each(['7', 'abc', `${nobody}0`, nobody.replaceAll('-', ''), '%00', `{${nobody}}`])(
  'the id %s is refused',
  async (id) => {
    for (const response of [await get(id), await operate('requeue', id), await operate('cancel', id)]) {
      expect(response.status).toBe(400)
      expect(await json(response)).toMatchObject({ code: 'invalid_id' })
    }
  },
)

test('a job that there is not is not found', async () => {
  for (const response of [
    await get(nobody),
    await operate('requeue', nobody),
    await operate('cancel', nobody),
  ]) {
    expect(response.status).toBe(404)
    expect(await json(response)).toEqual({ code: 'job_not_found', error: `no job has the id ${nobody}` })
  }
})

test('a job is read as it was created, in any case of its id', async () => {
  const created = await api.enqueue({ payload: { a: [1, 'x'] } })
  const response = await get(String(created.id).toUpperCase())
  expect(response.status).toBe(200)
  expect(await json(response)).toMatchObject(created)
})

test('a running job tells when it began, and not its lease', async () => {
  const { id } = await jobIn(`${RUNNING}, suspect = true`)
  const job = await json(get(id))
  expect(job).toMatchObject({ status: 'running', attempts: 1, suspect: true })
  expect(
    Object.keys(job).filter((name) => /lease|token|wait|completed|died|result|error/.test(name)),
  ).toEqual([])
  expect(job.started_at).toMatch(/Z$/)
})

test('a finished job has its result or its error, and when', async () => {
  const completed = await json(get((await jobIn(COMPLETED)).id))
  expect(completed).toMatchObject({
    status: 'completed',
    result: { n: 1 },
    completed_at: expect.any(String) as unknown,
  })
  expect(completed).not.toHaveProperty('waiting_for')
  const dead = await json(get((await jobIn(DEAD)).id))
  expect(dead).toMatchObject({
    status: 'dead',
    last_error: 'no luck',
    died_at: expect.any(String) as unknown,
  })
  expect(dead).not.toHaveProperty('result')
  expect(dead).not.toHaveProperty('suspect')
})

test('payload and result come as they are stored, though JavaScript could not keep them', async () => {
  const { id } = await jobIn(
    `payload = '{"big": 9007199254740993, "more": 1e400}', ${COMPLETED.replace('1}', '9007199254740993}')}`,
  )
  const text = await (await get(id)).text()
  expect(text).toContain('"payload":{"big": 9007199254740993, "more": 1e400}')
  expect(text).toContain('"result":{"n": 9007199254740993}')
})

test('a pending job waits for a tick, and says how long ago the last one was', async () => {
  const { id } = await api.enqueue()
  expect((await json(get(id))).waiting_for).toEqual({ reason: 'tick' })
  await api.send('/tick', { headers: as('cron') })
  const later = await api.enqueue()
  expect((await json(get(later.id))).waiting_for).toEqual({
    reason: 'tick',
    last_tick_age_seconds: expect.any(Number) as unknown,
  })
})

test('a delayed job waits until it is due', async () => {
  const { id } = await api.enqueue({ delay_seconds: 1_000 })
  const { waiting_for } = await json(get(id))
  expect(waiting_for).toEqual({ reason: 'due', due_in_seconds: expect.any(Number) as unknown })
  const { due_in_seconds } = waiting_for as { due_in_seconds: number }
  expect(due_in_seconds).toBeGreaterThan(0)
  expect(due_in_seconds).toBeLessThanOrEqual(1_000)
})

test('a job of a type that no root has waits for a handler', async () => {
  const { id } = await jobIn(`type = 'gone'`)
  expect((await json(get(id))).waiting_for).toEqual({ reason: 'no_handler' })
})

test('a job of a paused type waits for that', async () => {
  const { id } = await api.enqueue()
  await api.db.query(`update tidegate.types set paused_at = now() where type = 'test.echo'`)
  expect((await json(get(id))).waiting_for).toEqual({ reason: 'paused' })
  await api.db.query('update tidegate.types set paused_at = null')
})

test.each([
  ['dead', DEAD],
  ['cancelled', `status = 'cancelled', cancelled_at = now()`],
])('a job that is %s is requeued, and its history says by whom', async (_, columns) => {
  const { id } = await jobIn(columns)
  const response = await operate('requeue', id)
  expect(response.status).toBe(200)
  const { status, job } = (await json(response)) as { status: unknown; job: Answer }
  expect(status).toBe('ok')
  expect(job).toMatchObject({ id, status: 'pending', attempts: 0 })
  expect(job).not.toHaveProperty('last_error')
  const rows = await api.db.query<{ requeues: unknown }>('select requeues from tidegate.jobs where id = $1', [
    id,
  ])
  expect(rows[0]?.requeues).toMatchObject([{ by: 'ada' }])
  expect(api.log).toContainEqual(expect.objectContaining({ event: 'job requeued', job: id, token: 'ada' }))
})

test.each([
  ['pending', 'priority = 0'],
  ['running', RUNNING],
  ['completed', COMPLETED],
])('a job that is %s is not requeued', async (status, columns) => {
  const { id } = await jobIn(columns)
  const response = await operate('requeue', id)
  expect(response.status).toBe(409)
  expect(await json(response)).toEqual({
    code: 'not_requeueable',
    error: `expected a dead or cancelled job, got one that is ${status}`,
  })
})

test('a pending job is cancelled', async () => {
  const { id } = await api.enqueue()
  const response = await operate('cancel', id)
  expect(response.status).toBe(200)
  expect(await json(response)).toMatchObject({
    status: 'ok',
    job: { id, status: 'cancelled', cancelled_at: expect.any(String) as unknown },
  })
})

test('a running job is asked to stop, as often as one likes', async () => {
  const { id } = await jobIn(RUNNING)
  const first = await json(operate('cancel', id))
  expect(first).toMatchObject({ status: 'ok', job: { status: 'running' } })
  const again = await json(operate('cancel', id))
  const requestedAt = (answer: Answer) => (answer.job as Answer).cancel_requested_at
  expect(requestedAt(first)).toMatch(/Z$/)
  expect(requestedAt(again)).toBe(requestedAt(first))
})

test.each([
  ['completed', COMPLETED],
  ['dead', DEAD],
  ['cancelled', `status = 'cancelled', cancelled_at = now()`],
])('a job that is %s is not cancelled', async (status, columns) => {
  const { id } = await jobIn(columns)
  const response = await operate('cancel', id)
  expect(response.status).toBe(409)
  expect(await json(response)).toEqual({
    code: 'not_cancellable',
    error: `expected a pending or running job, got one that is ${status}`,
  })
})
