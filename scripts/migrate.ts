import { migrate } from '../src/migrate.ts'

const { env } = process

try {
  const { applied, newer } = await migrate({
    url: readUrl(),
    environment: env['TIDEGATE_ENV'] || 'production',
  })
  for (const file of applied) console.log(`applied ${file}`)
  if (newer.length > 0)
    console.log(`left alone: the database is newer than these files (${newer.join(', ')})`)
  else if (applied.length === 0) console.log('nothing to do')
} catch (error) {
  console.error(`migrate: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = 1
}

function readUrl(): string {
  const url = env['MIGRATE_DATABASE_URL'] || env['DATABASE_URL_UNPOOLED'] || env['DATABASE_URL']
  if (!url)
    throw new Error('expected MIGRATE_DATABASE_URL, DATABASE_URL_UNPOOLED or DATABASE_URL, found none')
  return url
}
