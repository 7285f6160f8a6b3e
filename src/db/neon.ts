import { neon, neonConfig } from '@neondatabase/serverless'

import { DatabaseError, neonError } from './errors.ts'
import type { Database } from './sql.ts'

/** How to reach Postgres over HTTP. */
export interface NeonOptions {
  readonly url: string
  /** URL of the SQL-over-HTTP endpoint. Defaults to Neon's own for the host of `url`. */
  readonly endpoint?: string | undefined
  /** Milliseconds that one statement may take, seen from here. Defaults to 15 000. */
  readonly timeoutMs?: number | undefined
  /** Sends the requests. Defaults to the global `fetch`. */
  readonly fetch?: typeof fetch | undefined
}

/**
 * Postgres over HTTP, as Neon and its proxies serve it: one request a statement, and no connection of ours.
 * Statements given at once run at once. Closing it aborts what is under way.
 */
export function openNeon(options: NeonOptions): Database {
  const { url, timeoutMs = 15_000 } = options
  const client = neon(url)
  const closing = new AbortController()
  let requests = 0
  return {
    async sql(text, params) {
      if (closing.signal.aborted) {
        throw new DatabaseError('the database of this invocation is closed', { kind: 'definite' })
      }
      requests += 1
      // A signal for each call: one that has fired would abort every later request.
      const signal = AbortSignal.any([AbortSignal.timeout(timeoutMs), closing.signal])
      const query = client.query(text, [...params], { fetchOptions: { signal } })
      try {
        // Every `then` of a query sends it again, so it has one, here, and nobody else gets to see it.
        return await sendingWith(options, () => query.then((rows) => rows))
      } catch (error) {
        throw neonError(error)
      }
    },
    requests: () => requests,
    async close() {
      closing.abort()
    },
  }
}

/**
 * Begins a query that goes to our endpoint. The package knows this setting for all of its users only, and reads
 * it in the moment in which a query begins: it is ours for that moment, and theirs again before anyone else runs.
 */
function sendingWith<Answer>({ endpoint, fetch: send }: NeonOptions, begin: () => Answer): Answer {
  if (endpoint === undefined && send === undefined) return begin()
  const before = neonConfig.fetchFunction as typeof fetch | undefined
  neonConfig.fetchFunction = (url: string, init: RequestInit) =>
    (send ?? before ?? fetch)(endpoint ?? url, init)
  try {
    return begin()
  } finally {
    neonConfig.fetchFunction = before
  }
}
