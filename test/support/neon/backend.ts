import { Pool, type PoolClient } from 'pg'

/** The sessions behind the endpoint. Like Neon's proxy it keeps them, and gives them to whoever comes next. */
export interface Backend {
  /** A session for the user, password and database of a connection string. */
  readonly connect: (connectionString: string) => Promise<PoolClient>
  readonly close: () => Promise<void>
}

/** Sessions on this server, whatever host a connection string names. */
export function openBackend(server: string): Backend {
  const pools = new Map<string, Pool>()
  const poolOf = (connectionString: string): Pool => {
    const { username, password, pathname } = new URL(connectionString)
    const url = new URL(server)
    Object.assign(url, { username, password, pathname })
    const pool = pools.get(url.href) ?? createPool(url.href)
    pools.set(url.href, pool)
    return pool
  }
  return {
    connect: (connectionString) => poolOf(connectionString).connect(),
    async close() {
      await Promise.all([...pools.values()].map((pool) => pool.end()))
    },
  }
}

function createPool(connectionString: string): Pool {
  const pool = new Pool({ connectionString, max: 20, idleTimeoutMillis: 5_000 })
  // Tests drop databases that idle sessions still belong to.
  pool.on('error', () => undefined)
  return pool
}
