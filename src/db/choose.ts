import type { DatabaseConfig } from './open.ts'

/** What a root is told of its database. */
export interface DatabaseSettings {
  readonly DATABASE_URL?: string | undefined
  readonly HYPERDRIVE?: { readonly connectionString: string } | undefined
  readonly DATABASE_DRIVER: 'auto' | 'pg' | 'neon'
  readonly NEON_ENDPOINT?: string | undefined
}

/** The way to the database: a Hyperdrive binding wins; `auto` takes Neon's HTTP for Neon's hosts, else TCP. */
export function chooseDatabase(settings: DatabaseSettings): DatabaseConfig {
  const { DATABASE_DRIVER, HYPERDRIVE, NEON_ENDPOINT } = settings
  const url = HYPERDRIVE?.connectionString ?? settings.DATABASE_URL ?? ''
  const isNeon = HYPERDRIVE === undefined && isNeonHost(url)
  return {
    driver: DATABASE_DRIVER === 'auto' ? (isNeon ? 'neon' : 'pg') : DATABASE_DRIVER,
    url,
    ...(NEON_ENDPOINT === undefined ? {} : { endpoint: NEON_ENDPOINT }),
  }
}

/** Settings that contradict each other: the setting, what was expected, and never the URL. */
export function databaseProblems(settings: DatabaseSettings): readonly string[] {
  const { driver, url, endpoint } = chooseDatabase(settings)
  if (driver === 'pg') {
    return endpoint === undefined ? [] : ['NEON_ENDPOINT: expected the driver neon with it, got pg']
  }
  if (settings.HYPERDRIVE !== undefined) {
    return ['DATABASE_DRIVER: expected pg or auto with a Hyperdrive binding, got neon']
  }
  return isNeonUrl(url)
    ? []
    : ['DATABASE_URL: expected postgres://user:password@host/database for the driver neon']
}

function isNeonHost(url: string): boolean {
  return URL.canParse(url) && new URL(url).hostname.endsWith('.neon.tech')
}

/** What the package refuses by itself, but in an error that quotes the URL. */
function isNeonUrl(url: string): boolean {
  const asHttp = url.replace(/^postgres(ql)?:/, 'http:')
  if (!URL.canParse(asHttp)) return false
  const { username, pathname } = new URL(asHttp)
  return username !== '' && pathname !== '' && pathname !== '/'
}
