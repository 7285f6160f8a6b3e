import { join } from 'node:path'

import { createServer } from '../src/create-server.ts'
import { openDatabase } from './start/database.ts'
import { lockDataFolder } from './start/data-lock.ts'
import { untilInterrupted } from './start/interrupt.ts'
import { readStartSettings } from './start/settings.ts'
import { makeTokens, tokenSettings } from './start/tokens.ts'

const { env } = process

// What a handler leaves behind must not end the process that other handlers run in.
process.on('unhandledRejection', (reason) => print(`unhandled rejection: ${String(reason)}`))

try {
  await main()
  process.exit(0)
} catch (error) {
  console.error(`npm run start:node: ${error instanceof Error ? error.message : String(error)}`)
  process.exit(1)
}

/** The Node root on an embedded Postgres, or on DATABASE_URL. At SIGTERM it drains for GRACE_MS and ends with 0. */
async function main(): Promise<void> {
  const settings = readStartSettings(env)
  const interrupted = untilInterrupted(() => process.exit(130))
  await using running = new AsyncDisposableStack()
  const lock = await lockDataFolder(settings.DATA_DIR)
  running.defer(() => lock.release())
  const database = await openDatabase({ settings, wasKilled: lock.wasKilled, running, print })
  const tokens = await makeTokens(env, join(settings.DATA_DIR, 'tokens.json'))
  const server = await createServer({
    jobs: [],
    env: {
      ...env,
      ...tokenSettings(tokens),
      DATABASE_URL: database.url,
      TIDEGATE_ENV: settings.TIDEGATE_ENV,
    },
    port: settings.PORT,
    hostname: '127.0.0.1',
    tickEveryMs: settings.TICK_EVERY_MS,
    graceMs: settings.GRACE_MS,
  })
  running.defer(() => server.stop())
  print(
    `tidegate on Node is ready: http://127.0.0.1:${server.port} (tokens in ${settings.DATA_DIR}/tokens.json)`,
  )
  await Promise.race([interrupted, database.lost])
  print('draining: nothing more is accepted or claimed')
}

function print(line: string): void {
  console.log(line)
}
