import type { MiddlewareHandler } from 'hono'

import type { Database } from '../db/sql.ts'
import type { HttpEnv } from './request.ts'
import { waitUntilOf } from './wait-until.ts'

/** One database for each request: opened by its first statement, closed in any case. */
export function withDatabase(openDatabase: () => Database): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    let database: Database | undefined
    c.set('sql', (text, params) => {
      database ??= openDatabase()
      return database.sql(text, params)
    })
    try {
      await next()
    } finally {
      const closing = database?.close()
      const waitUntil = waitUntilOf(c)
      // The answer need not wait where the runtime keeps the invocation alive without it.
      if (closing !== undefined && waitUntil !== undefined) waitUntil(closing)
      else await closing
    }
  }
}
