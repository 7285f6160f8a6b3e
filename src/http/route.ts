import type { RouteConfig } from '@hono/zod-openapi'
import type { z } from 'zod'

import type { Database, Sql } from '../db/sql.ts'
import type { Logger } from '../log.ts'
import type { Registry } from '../registry.ts'
import type { TickReport } from '../report.ts'
import type { Scope, Tokens } from './auth.ts'
import type { HttpContext } from './request.ts'
import type { WaitUntil } from './wait-until.ts'

/** What a root gives to its routes. */
export interface HttpDependencies {
  readonly registry: Registry
  /** TIDEGATE_ENV: whose database this should be. */
  readonly environment: string
  readonly tokens: Tokens
  /** Opens a way to the database; the request closes it. */
  readonly openDatabase: () => Database
  /** Runs one tick, on connections of its own. */
  readonly tick: (options: {
    readonly windowMs: number
    readonly maxJobs: number
    readonly signal: AbortSignal
  }) => Promise<TickReport>
  /** The longest window of a tick over HTTP, and the one that is taken when none is asked for. */
  readonly tickWindowMs: number
  readonly metrics: (sql: Sql) => Promise<{ readonly contentType: string; readonly body: string }>
  /** Called after a job was created that is due at once. Must not throw. */
  readonly onEnqueued?: (waitUntil: WaitUntil | undefined) => void
  readonly log: Logger
  /** Path under which the routes live. Defaults to the root. */
  readonly basePath?: string
}

/** One route: where it is, who may use it, what the contract says of it, and what it does. */
export interface Route {
  readonly method: 'GET' | 'POST'
  /** In the form of OpenAPI: `/jobs/{id}`. */
  readonly path: string
  readonly access: Scope | 'anyone'
  /** Its part of the OpenAPI document. A function, so that its schemas cost nothing until somebody asks. */
  readonly describe: (dependencies: HttpDependencies) => RouteDescription
  readonly handle: (c: HttpContext, dependencies: HttpDependencies) => Promise<Response> | Response
}

/** What a route says of itself; method, path, token and the errors of all routes are added to it. */
export interface RouteDescription extends Pick<RouteConfig, 'summary' | 'description' | 'request'> {
  readonly summary: string
  readonly answers: Readonly<Record<number, Answer>>
}

/** What one status means; as a text alone it is the codes of an error. */
export type Answer =
  | string
  | {
      readonly description: string
      readonly schema: z.ZodType
      /** Defaults to `application/json`. */
      readonly mediaType?: string
    }
