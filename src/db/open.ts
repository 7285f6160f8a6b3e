import { openNeon } from './neon.ts'
import { openPg } from './pg.ts'
import type { Database } from './sql.ts'

/** Which way leads to the database, and where it is. */
export interface DatabaseConfig {
  readonly driver: 'pg' | 'neon'
  readonly url: string
  /** URL of an SQL-over-HTTP endpoint, for the driver `neon`. Defaults to Neon's own for the host of `url`. */
  readonly endpoint?: string
}

/** Opens the database of one invocation; it connects at the first call. */
export function openDatabase(config: DatabaseConfig): Database {
  switch (config.driver) {
    case 'pg':
      return openPg({ url: config.url })
    case 'neon':
      return openNeon(config)
  }
}
