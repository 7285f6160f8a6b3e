import { z } from 'zod'

import type { Database } from '../../src/db/sql.ts'
import { openPg } from '../../src/db/pg.ts'
import { createLogger } from '../../src/log.ts'
import {
  createRegistry,
  defineJob,
  type AnyJob,
  type JobContext,
  type HandlerResult,
} from '../../src/registry.ts'
import type { TickReport } from '../../src/report.ts'
import { enqueue } from '../../src/store/enqueue.ts'
import { tick } from '../../src/tick.ts'
import {
  TICK_SETTINGS,
  type TickDependencies,
  type TickOptions,
  type TickSettings,
} from '../../src/tick-options.ts'
import { createDatabase, type TestDatabase } from './database.ts'

/** A root over a database of its own. */
export interface Root {
  readonly db: TestDatabase
  /** One line of the log each. */
  readonly logged: Record<string, unknown>[]
  tick(
    jobs: readonly AnyJob[],
    options?: Partial<TickOptions>,
    extra?: Partial<TickDependencies>,
  ): Promise<TickReport>
  put(type: string, payload?: unknown, fields?: object): Promise<string>
  job(id: string): Promise<Record<string, unknown>>
  jobs(): Promise<Record<string, unknown>[]>
  close(): Promise<void>
}

export const settings: TickSettings = { ...TICK_SETTINGS, reserveMs: 1_000 }

export async function openRoot(): Promise<Root> {
  const db = await createDatabase()
  const own = openPg({ url: db.url })
  const logged: Record<string, unknown>[] = []
  const log = createLogger('debug', (line) => logged.push(JSON.parse(line) as Record<string, unknown>))
  let keys = 0
  return {
    db,
    logged,
    tick: (jobs, options, extra) =>
      tick(
        {
          registry: createRegistry(jobs),
          openDatabase: () => openPg({ url: db.url }),
          env: { NAME: 'test' },
          environment: 'test',
          settings,
          log,
          ...extra,
        },
        { windowMs: 20_000, ...options },
      ),
    async put(type, payload = {}, fields = {}) {
      keys += 1
      const input = { type, payload: JSON.stringify(payload), idempotencyKey: `key-${keys}`, ...fields }
      const enqueued = await enqueue(own.sql, input)
      return 'job' in enqueued ? enqueued.job.id : ''
    },
    async job(id) {
      const [row] = await db.query('select * from tidegate.jobs where id = $1', [id])
      return row ?? {}
    },
    jobs: () => db.query('select * from tidegate.jobs order by id'),
    async close() {
      await own.close()
      await db.close()
    },
  }
}

/** A job type `t` that takes anything and does this. */
export function job(
  run: (payload: unknown, context: JobContext) => Promise<HandlerResult> | HandlerResult,
  fields: { readonly type?: string; readonly timeout?: number; readonly maxAttempts?: number } = {},
): AnyJob {
  return defineJob({ type: 't', payload: z.unknown(), timeout: 5_000, ...fields, run })
}

/** A promise that never settles. */
export const never = new Promise<never>(() => undefined)

/** Waits for the abort and then returns as `after` says. */
export function untilAborted<Value>(signal: AbortSignal, after: () => Value): Promise<Value> {
  const { promise, resolve, reject } = Promise.withResolvers<Value>()
  const finish = () => {
    try {
      resolve(after())
    } catch (error) {
      reject(error)
    }
  }
  if (signal.aborted) finish()
  else signal.addEventListener('abort', finish)
  return promise
}

/** A database that does to each call what the test says, before and after it. */
export function interfering(
  database: Database,
  around: (call: () => ReturnType<Database['sql']>, text: string) => ReturnType<Database['sql']>,
): Database {
  return { ...database, sql: (text, params) => around(() => database.sql(text, params), text) }
}
