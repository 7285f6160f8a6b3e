import { inject } from 'vitest'

import { openNeon } from '../../src/db/neon.ts'
import { openPg } from '../../src/db/pg.ts'
import type { Database } from '../../src/db/sql.ts'
import type { TestServer } from './test-server.ts'
import { openThroughWorker, type WorkerPlan } from './sql-worker.ts'

declare module 'vitest' {
  interface ProvidedContext {
    readonly drivers: readonly DriverPlan[]
  }
}

/** A driver that the run's setup has made ready. Plain data, for it crosses to the processes of the tests. */
export interface DriverPlan {
  readonly name: string
  readonly server: TestServer
  readonly way: Way
}

/** How statements reach the server: straight, through a pooler on another port, or over HTTP, from here or workerd. */
type Way =
  | { readonly kind: 'pg'; readonly port?: string }
  | { readonly kind: 'neon'; readonly endpoint: string }
  | ({ readonly kind: 'workerd' } & WorkerPlan)

/** A way in which statements reach Postgres. */
export interface Driver {
  readonly name: string
  /** Where its databases are. */
  readonly server: TestServer
  readonly open: (url: string) => Database
  /** Where a client of Postgres's own protocol takes this way to a database; undefined when it is not for one. */
  readonly tcpUrl: ((url: string) => string) | undefined
}

/** The drivers of this run; none in a project whose setup starts none. */
export function listDrivers(): readonly Driver[] {
  const plans = inject('drivers') as readonly DriverPlan[] | undefined
  return (plans ?? []).map(({ name, server, way }) => ({
    name,
    server,
    open: (url) => open(way, url),
    tcpUrl: way.kind === 'pg' ? (url) => through(url, way.port) : undefined,
  }))
}

function open(way: Way, url: string): Database {
  switch (way.kind) {
    case 'pg':
      return openPg({ url: through(url, way.port) })
    case 'neon':
      return openNeon({ url, endpoint: way.endpoint })
    case 'workerd':
      return openThroughWorker(way, url)
  }
}

function through(url: string, port: string | undefined): string {
  return port === undefined ? url : Object.assign(new URL(url), { port }).href
}
