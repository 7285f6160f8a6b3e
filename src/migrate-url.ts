const SETTINGS = ['MIGRATE_DATABASE_URL', 'DATABASE_URL_UNPOOLED', 'DATABASE_URL'] as const

/**
 * The URL under which migrations and operators reach the database: MIGRATE_DATABASE_URL, else
 * DATABASE_URL_UNPOOLED, else DATABASE_URL. An empty setting counts as absent. Throws when there is none, or
 * when it is no Postgres URL, and never quotes it.
 */
export function readMigrateUrl(env: Readonly<Record<string, string | undefined>>): string {
  const name = SETTINGS.find((setting) => env[setting])
  const url = name && env[name]
  if (!url)
    throw new Error('expected MIGRATE_DATABASE_URL, DATABASE_URL_UNPOOLED or DATABASE_URL, found none')
  if (!/^postgres(ql)?:\/\//.test(url) || !URL.canParse(url)) {
    throw new Error(`expected ${name} like postgres://user:password@host/database, got something else`)
  }
  const { hostname } = new URL(url)
  // Neon's pooler (https://neon.com/docs/connect/connection-pooling) is no place for long transactions and locks.
  if (/-pooler(\.|$)/.test(hostname)) {
    throw new Error(
      `expected ${name} to name the server itself, got the pooler ${hostname}: ` +
        'set DATABASE_URL_UNPOOLED to the URL without -pooler',
    )
  }
  return url
}
