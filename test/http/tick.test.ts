import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'

import type { HttpDependencies } from '../../src/http/route.ts'
import type { StopReason, TickReport } from '../../src/report.ts'
import { as, json, openApi, type Api } from '../support/api.ts'

type TickOptions = Parameters<HttpDependencies['tick']>[0]

const report: TickReport = {
  claimed: 1,
  completed: 2,
  retried: 3,
  dead: 4,
  released: 5,
  snoozed: 6,
  cancelled: 7,
  lost: 8,
  reaped: 9,
  scheduled: 10,
  pruned: 11,
  subrequests: 3,
  roundTrips: 12,
  durationMs: 13,
  startLatencyMs: 14,
  stopped: 'empty',
  more: true,
  nextDueAt: '2026-01-01T00:00:00.000000Z',
}

let api: Api
let asked: TickOptions[]
let answer: TickReport
let ended: Promise<void>

beforeAll(async () => {
  api = await openApi(() => ({
    tick: (options) => {
      asked.push(options)
      return ended.then(() => answer)
    },
  }))
})
beforeEach(() => {
  asked = []
  ended = Promise.resolve()
  answer = report
})
afterAll(() => api.close())

const post = (body?: string, type = 'application/json') =>
  api.send('/tick', {
    method: 'POST',
    headers: { ...as('cron'), ...(body !== undefined && { 'Content-Type': type }) },
    ...(body !== undefined && { body }),
  })

test('a tick is answered with its report', async () => {
  const response = await post()
  expect(response.status).toBe(200)
  expect(await json(response)).toEqual({
    claimed: 1,
    completed: 2,
    retried: 3,
    dead: 4,
    released: 5,
    snoozed: 6,
    cancelled: 7,
    lost: 8,
    reaped: 9,
    scheduled: 10,
    pruned: 11,
    round_trips: 12,
    subrequests: 3,
    duration_ms: 13,
    start_latency_ms: 14,
    stopped: 'empty',
    more: true,
    next_due_at: '2026-01-01T00:00:00.000000Z',
  })
})

test.each<[string, () => Promise<Response>, object]>([
  ['no body', () => post(), { windowMs: 25_000, maxJobs: 0 }],
  ['an empty body of any type', () => post('', 'text/plain'), { windowMs: 25_000, maxJobs: 0 }],
  ['an empty object', () => post('{}'), { windowMs: 25_000, maxJobs: 0 }],
  ['both', () => post('{"window_ms":1000,"max_jobs":7}'), { windowMs: 1_000, maxJobs: 7 }],
  ['the greatest', () => post('{"window_ms":25000}'), { windowMs: 25_000, maxJobs: 0 }],
  ['no query', () => get(''), { windowMs: 25_000, maxJobs: 0 }],
  ['a query', () => get('?window_ms=2000&max_jobs=1'), { windowMs: 2_000, maxJobs: 1 }],
])('options of %s', async (_, send, options) => {
  expect((await send()).status).toBe(200)
  expect(asked).toMatchObject([options])
})

test('the answer waits for the end of the tick, so nothing is killed behind it (trap 7)', async () => {
  const end = Promise.withResolvers<void>()
  ended = end.promise
  let answered = false
  const answering = post().then((response) => {
    answered = true
    return response
  })
  while (asked.length === 0) await new Promise((resolve) => setImmediate(resolve))
  for (let turn = 0; turn < 10; turn += 1) await new Promise((resolve) => setImmediate(resolve))
  expect(answered).toBe(false)
  end.resolve()
  expect((await answering).status).toBe(200)
})

test('a HEAD runs nothing', async () => {
  const response = await api.send('/tick', { method: 'HEAD', headers: as('cron') })
  expect(response.status).toBe(405)
  expect(asked).toEqual([])
})

test.each<[string, () => Promise<Response>, string]>([
  ['a window over its maximum', () => post('{"window_ms":25001}'), 'window_ms'],
  ['a window under its minimum', () => post('{"window_ms":999}'), 'window_ms'],
  ['a window that is text', () => post('{"window_ms":"2000"}'), 'window_ms'],
  ['a negative maximum', () => post('{"max_jobs":-1}'), 'max_jobs'],
  ['an unknown field', () => post('{"window":1}'), 'window'],
  ['a body that is null', () => post('null'), ''],
  ['a query over the maximum', () => get('?window_ms=25001'), 'window_ms'],
  ['a query that is no number', () => get('?window_ms=1e4'), 'window_ms'],
  ['an empty query parameter', () => get('?max_jobs='), 'max_jobs'],
  ['an unknown query parameter', () => get('?windowMs=1000'), 'windowMs'],
])('%s is refused', async (_, send, path) => {
  const response = await send()
  expect(response.status).toBe(400)
  expect(await json(response)).toMatchObject({ code: 'invalid_request', issues: [{ path }] })
  expect(asked).toEqual([])
})

test('a body of another type is refused', async () => {
  expect((await post('window_ms=1000', 'application/x-www-form-urlencoded')).status).toBe(415)
  expect((await post('{')).status).toBe(400)
})

test.each<[StopReason, number]>([
  ['empty', 200],
  ['deadline', 200],
  ['limit', 200],
  ['budget', 200],
  ['shutdown', 200],
  ['wrong_database', 503],
  ['error', 503],
])('a tick that stopped for %s is %d', async (stopped, status) => {
  answer = { ...report, stopped, error: 'why' }
  const response = await post()
  expect(response.status).toBe(status)
  expect(await json(response)).toMatchObject({ stopped, error: 'why', claimed: 1 })
})

test('a client that leaves aborts the tick’s signal', async () => {
  const leaving = new AbortController()
  await api.send('/tick', { method: 'POST', headers: as('cron'), signal: leaving.signal })
  expect(asked[0]?.signal.aborted).toBe(false)
  leaving.abort()
  expect(asked[0]?.signal.aborted).toBe(true)
})

test('where the runtime keeps invocations alive, it is given the tick', async () => {
  const kept: Promise<unknown>[] = []
  await api.send('/tick', { headers: as('cron') }, { waitUntil: (work) => void kept.push(work) })
  expect(await Promise.all(kept)).toEqual([report])
})

test('the request opens no database beside the tick’s own', async () => {
  await post()
  expect(api.databases.opened).toBe(0)
})

let real: Api

afterEach(() => real?.close())

test('a tick over HTTP runs what was enqueued over HTTP', async () => {
  real = await openApi()
  const { id } = await real.enqueue({ payload: { msg: 'hello' } })
  const ticked = await real.send('/tick', { method: 'POST', headers: as('cron') })
  expect(ticked.status).toBe(200)
  expect(await json(ticked)).toMatchObject({ claimed: 1, completed: 1, stopped: 'empty', more: false })
  const job = await json(real.send(`/jobs/${String(id)}`, { headers: as('enqueue') }))
  expect(job).toMatchObject({ status: 'completed', attempts: 1, result: { msg: 'hello' } })
})

test('a tick over HTTP on another environment’s database is 503 and names both', async () => {
  real = await openApi()
  await real.db.query(`update tidegate.meta set environment = 'production'`)
  const ticked = await real.send('/tick', { method: 'POST', headers: as('cron') })
  expect(ticked.status).toBe(503)
  const { stopped, error } = await json(ticked)
  expect(stopped).toBe('wrong_database')
  expect(error).toMatch(/"production".*"test"/)
})

function get(query: string): Promise<Response> {
  return api.send(`/tick${query}`, { headers: as('cron') })
}
