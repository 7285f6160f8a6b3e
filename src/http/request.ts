import type { Context, MiddlewareHandler } from 'hono'

import type { Sql } from '../db/sql.ts'
import type { Logger } from '../log.ts'
import type { Caller } from './auth.ts'

/** What middleware leaves for handlers. */
export interface HttpEnv {
  readonly Variables: {
    /** The sender's `X-Request-Id`, else one of ours. */
    readonly requestId: string
    /** Logs with the request's id and the name of its token. */
    readonly log: Logger
    /** Statements on the request's own connection, which opens at the first one. */
    readonly sql: Sql
    /** Whose token came; only on routes that ask for one. */
    readonly caller: Caller
  }
}

/** A request under way. */
export type HttpContext = Context<HttpEnv>

/** Gives every request its id and its logger, and every answer, errors too, the headers that all of them carry. */
export function frame(log: Logger): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    const requestId = readRequestId(c.req.header('X-Request-Id'))
    c.set('requestId', requestId)
    c.set('log', log.with({ request: requestId }))
    await next()
    c.header('X-Request-Id', requestId)
    c.header('Cache-Control', 'no-store')
    c.get('log').debug('request done', { method: c.req.method, path: c.req.path, status: c.res.status })
  }
}

/** The id that came when it is at most 128 visible ASCII characters, else a new one. */
function readRequestId(header: string | undefined): string {
  return header !== undefined && /^[!-~]{1,128}$/.test(header) ? header : crypto.randomUUID()
}
