import { z } from 'zod'

import { openPg } from '../../src/db/pg.ts'
import type { Database } from '../../src/db/sql.ts'
import { echo } from '../../src/handlers/echo.ts'
import { createApp } from '../../src/http/app.ts'
import type { HttpDependencies } from '../../src/http/route.ts'
import { createLogger } from '../../src/log.ts'
import { renderMetrics } from '../../src/metrics.ts'
import { createRegistry, defineJob, type Registry } from '../../src/registry.ts'
import { readMetrics } from '../../src/store/metrics.ts'
import { tick } from '../../src/tick.ts'
import { TICK_SETTINGS } from '../../src/tick-options.ts'
import { createDatabase, type TestDatabase } from './database.ts'

/** Tokens of an {@link Api}, by scope. */
export const tokens = {
  enqueue: [{ name: 'shop', secret: 'enqueue-secret' }],
  operator: [
    { name: 'old', secret: 'operator-secret-1' },
    { name: 'ada', secret: 'operator-secret-2' },
  ],
  cron: [{ name: 'clock', secret: 'cron-secret' }],
}

/** Headers that carry the first token of a scope. */
export const as = (scope: keyof typeof tokens): Record<string, string> => ({
  Authorization: `Bearer ${tokens[scope][0]?.secret}`,
})

/** `test.echo`; `mail.welcome`, whose schema is strict and has a default; and `list`, which has three attempts. */
const registry: Registry = createRegistry([
  echo,
  defineJob({
    type: 'mail.welcome',
    payload: z.object({ to: z.email(), language: z.string().default('en') }),
    run: () => undefined,
  }),
  defineJob({
    type: 'list',
    maxAttempts: 3,
    payload: z.object({ items: z.array(z.int()) }),
    run: () => undefined,
  }),
])

/** A field of a JSON answer. */
export type Answer = Readonly<Record<string, unknown>>

/** The HTTP API over a database of its own. */
export interface Api {
  readonly db: TestDatabase
  readonly dependencies: HttpDependencies
  /** What was logged, parsed. */
  readonly log: Answer[]
  /** How many databases requests have opened, and how many of them are closed. */
  readonly databases: { opened: number; closed: number }
  /** Sends a request. `context` is what Workers hand over. */
  readonly send: (
    path: string,
    init?: RequestInit,
    context?: { waitUntil(work: Promise<unknown>): void },
  ) => Promise<Response>
  /** Posts JSON, as the first token of scope enqueue if headers name no other. */
  readonly post: (path: string, body: unknown, headers?: Record<string, string>) => Promise<Response>
  /** Enqueues and returns the job. */
  readonly enqueue: (fields?: object) => Promise<Answer>
  readonly close: () => Promise<void>
}

/** Opens an API. `changed` replaces dependencies, and may build on the database. */
export async function openApi(
  changed: (db: TestDatabase) => Partial<HttpDependencies> = () => ({}),
  create: () => Promise<TestDatabase> = createDatabase,
): Promise<Api> {
  const db = await create()
  const log: Answer[] = []
  const databases = { opened: 0, closed: 0 }
  const dependencies: HttpDependencies = {
    registry,
    environment: 'test',
    tokens,
    openDatabase: counted(() => openPg({ url: db.url }), databases),
    tick: (options) => realTick(db, options),
    tickWindowMs: 25_000,
    metrics: async (sql) => renderMetrics(await readMetrics(sql)),
    log: createLogger('debug', (line) => log.push(JSON.parse(line) as Answer)),
    ...changed(db),
  }
  const app = createApp(dependencies)
  const send: Api['send'] = async (path, init, context) =>
    app.request(path, init, {}, context && { ...context, passThroughOnException: () => undefined, props: {} })
  const post: Api['post'] = (path, body, headers = {}) =>
    send(path, {
      method: 'POST',
      headers: { ...as('enqueue'), 'Content-Type': 'application/json', ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    })
  let keys = 0
  return {
    db,
    dependencies,
    log,
    databases,
    send,
    post,
    async enqueue(fields = {}) {
      keys += 1
      const job = { type: 'test.echo', payload: {}, idempotency_key: `key-${keys}`, ...fields }
      return (await (await post('/jobs', job)).json()) as Answer
    },
    close: () => db.close(),
  }
}

/** The body of an answer. */
export async function json(response: Response | Promise<Response>): Promise<Answer> {
  return (await (await response).json()) as Answer
}

function counted(open: () => Database, databases: { opened: number; closed: number }): () => Database {
  return () => {
    databases.opened += 1
    const database = open()
    return {
      ...database,
      async close() {
        await database.close()
        databases.closed += 1
      },
    }
  }
}

function realTick(db: TestDatabase, options: Parameters<HttpDependencies['tick']>[0]) {
  const openDatabase = () => openPg({ url: db.url })
  const log = createLogger('silent')
  const own = { registry, env: {}, environment: 'test', settings: TICK_SETTINGS }
  return tick({ ...own, openDatabase, log }, options)
}
