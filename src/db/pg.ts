import { Client } from 'pg'

import { connectError, DatabaseError, statementError } from './errors.ts'
import type { Database, Param, Row } from './sql.ts'

/** How to reach Postgres over TCP. */
export interface PgOptions {
  readonly url: string
  /** Milliseconds that one statement may take, seen from here. Defaults to 15 000. */
  readonly timeoutMs?: number
  /** Milliseconds that connecting may take. Defaults to 5 000. */
  readonly connectTimeoutMs?: number
}

/**
 * Postgres over one TCP connection of `pg`, for one invocation: nothing is pooled, for a socket kept beyond
 * its invocation hangs the next one in workerd. Statements go out unnamed and one after the other. A
 * connection that failed or timed out is thrown away, and the next call makes a new one.
 */
export function openPg(options: PgOptions): Database {
  let current: Connection | undefined
  let queue: Promise<unknown> = Promise.resolve()
  let closed = false
  let connections = 0

  const discard = (client: Client) => {
    current = undefined
    client.end().catch(() => undefined)
  }

  const run = async (text: string, params: readonly Param[]): Promise<readonly Row[]> => {
    if (closed) throw new DatabaseError('the connection of this invocation is closed', { kind: 'definite' })
    if (current === undefined) {
      connections += 1
      current = connect(options)
    }
    const { client } = current
    await current.ready.catch((error: unknown) => {
      current = undefined
      throw connectError(error)
    })
    try {
      const { rows } = await client.query<Row>(text, [...params])
      return rows
    } catch (error) {
      const failure = statementError(error)
      if (failure.kind === 'ambiguous') discard(client)
      throw failure
    }
  }

  return {
    sql(text, params) {
      const answer = queue.then(() => run(text, params))
      queue = answer.catch(() => undefined)
      return answer
    },
    requests: () => connections,
    async close() {
      closed = true
      if (current !== undefined) await sayGoodbye(current)
    },
  }
}

interface Connection {
  readonly client: Client
  readonly ready: Promise<unknown>
}

/** How long the server may take to hear that a connection ends: one that is gone never does. */
const GOODBYE_MS = 100

async function sayGoodbye({ client, ready }: Connection): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const limit = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, GOODBYE_MS)
  })
  await Promise.race([ready.then(() => client.end()).catch(() => undefined), limit])
  clearTimeout(timer)
  client.connection.stream.destroy()
}

function connect({ url, timeoutMs = 15_000, connectTimeoutMs = 5_000 }: PgOptions): Connection {
  const client = new Client({
    connectionString: url,
    query_timeout: timeoutMs,
    connectionTimeoutMillis: connectTimeoutMs,
    application_name: 'tidegate',
  })
  // Without a listener the error of an idle connection would end the process; the next statement reports it.
  client.on('error', () => undefined)
  return { client, ready: client.connect() }
}
