import { DatabaseError } from '../../src/db/errors.ts'
import type { DatabaseConfig } from '../../src/db/open.ts'
import type { Database, Param, Row } from '../../src/db/sql.ts'

/** A workerd that serves `test/fixtures/sql-worker.ts`, and the driver that it is to use. */
export interface WorkerPlan {
  readonly worker: string
  readonly driver: DatabaseConfig['driver']
  readonly endpoint?: string
}

/** One statement for the Worker to run, on a database that it opens for it. */
export interface WorkerRequest {
  readonly database: DatabaseConfig
  readonly text: string
  readonly params: readonly Param[]
}

/** What came of it. */
export type WorkerAnswer =
  | { readonly rows: readonly Row[] }
  | { readonly error: Pick<DatabaseError, 'message' | 'kind' | 'code' | 'constraint'> }

/** A database whose statements run inside workerd, each in an invocation of its own. */
export function openThroughWorker({ worker, driver, endpoint }: WorkerPlan, url: string): Database {
  const database: DatabaseConfig = { driver, url, ...(endpoint === undefined ? {} : { endpoint }) }
  let requests = 0
  return {
    async sql(text, params) {
      requests += 1
      const request: WorkerRequest = { database, text, params }
      const response = await fetch(worker, { method: 'POST', body: JSON.stringify(request) })
      const answer = (await response.json()) as WorkerAnswer
      if ('rows' in answer) return answer.rows
      const { message, kind, code, constraint } = answer.error
      throw new DatabaseError(message, {
        kind,
        ...(code === undefined ? {} : { code }),
        ...(constraint === undefined ? {} : { constraint }),
      })
    },
    requests: () => requests,
    close: () => Promise.resolve(),
  }
}
