import { join } from 'node:path'
import { openDatabase } from './start/database.ts'
import { lockDataFolder } from './start/data-lock.ts'
import { startDemoReceiver } from './start/demo-receiver.ts'
import { untilInterrupted } from './start/interrupt.ts'
import { expectFreePort } from './start/port.ts'
import { expectReady } from './start/readiness.ts'
import { readStartSettings, readWorkerSettings, type StartSettings } from './start/settings.ts'
import { superviseWorkerd } from './start/supervisor.ts'
import { makeTokens, tokenSettings } from './start/tokens.ts'
import { welcomeLines } from './start/welcome.ts'
import { startWorkerd } from './workerd.ts'
import { bundleWorker } from './workerd/bundle.ts'

const { env } = process

// `npm start | head` closes our output early; that must not be what ends us.
process.stdout.on('error', () => undefined)

try {
  await main(readStartSettings(env))
  process.exit(0)
} catch (error) {
  console.error(`npm start: ${error instanceof Error ? error.message : String(error)}`)
  process.exit(1)
}

async function main(settings: StartSettings): Promise<void> {
  // Workerd and postgres notice our end by themselves.
  const interrupted = untilInterrupted(() => process.exit(130))
  await using running = new AsyncDisposableStack()
  await Promise.race([interrupted, run(settings, running)])
}

// All that it starts is stopped with the stack, the last one first.
async function run(settings: StartSettings, running: AsyncDisposableStack): Promise<never> {
  const lock = await lockDataFolder(settings.DATA_DIR)
  running.defer(() => lock.release())
  const port = await expectFreePort(settings.PORT)
  const [database, bundle] = await Promise.all([
    openDatabase({ settings, wasKilled: lock.wasKilled, running, print }),
    bundleWorker(),
  ])
  const tokensFile = join(settings.DATA_DIR, 'tokens.json')
  const tokens = await makeTokens(env, tokensFile)
  const webhooks = env['WEBHOOKS'] ? {} : await offerReceiver(running)
  const vars = {
    ...readWorkerSettings(env),
    ...tokenSettings(tokens),
    ...webhooks,
    DATABASE_URL: database.url,
    TIDEGATE_ENV: settings.TIDEGATE_ENV,
  }
  const supervisor = await superviseWorkerd({
    launch: () => startWorkerd({ bundle, port, vars, onLog: print }),
    expectReady,
    tickEveryMs: settings.TICK_EVERY_MS,
    print,
  })
  running.defer(() => supervisor.stop())
  welcomeLines({
    settings,
    url: supervisor.url,
    tokens,
    tokensFile,
    hasReceiver: 'WEBHOOKS' in webhooks,
  }).forEach(print)
  return database.lost
}

async function offerReceiver(running: AsyncDisposableStack): Promise<{ readonly WEBHOOKS: string }> {
  const receiver = await startDemoReceiver(print)
  running.defer(() => receiver.close())
  const { url, secret } = receiver
  return { WEBHOOKS: JSON.stringify({ 'demo.webhook': { url, secret } }) }
}

function print(line: string): void {
  console.log(line)
}
