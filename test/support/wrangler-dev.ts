import { spawn } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

import { findWrangler } from '../../scripts/workerd/bundle.ts'
import { tether } from '../../scripts/workerd/tether.ts'

const repository = join(import.meta.dirname, '..', '..')

/** A `wrangler dev` that listens. */
export interface WranglerDev extends AsyncDisposable {
  readonly url: string
  /** Fires the cron handler, and answers how it ended. */
  readonly scheduled: () => Promise<string>
}

/** Runs `wrangler dev` on our wrangler.toml with its Hyperdrive block uncommented, for what only wrangler emulates. */
export async function startWranglerDev(options: {
  /** Of its own: the configuration and wrangler's state go there. */
  readonly folder: string
  /** What the Hyperdrive binding connects to. */
  readonly hyperdrive: string
  readonly vars: Readonly<Record<string, string>>
}): Promise<WranglerDev> {
  const config = join(options.folder, 'wrangler.toml')
  await writeFile(config, await withHyperdrive())
  const vars = Object.entries(options.vars).flatMap(([name, value]) => ['--var', `${name}:${value}`])
  const files = ['--config', config, '--persist-to', join(options.folder, 'state')]
  const ports = ['--ip', '127.0.0.1', '--port', '0', '--inspector-port', '0']
  const child = spawn(process.execPath, [findWrangler(), 'dev', ...files, ...ports, ...vars], {
    env: {
      ...process.env,
      CI: '1',
      NO_COLOR: '1',
      WRANGLER_SEND_METRICS: 'false',
      CLOUDFLARE_CF_FETCH_ENABLED: 'false',
      CLOUDFLARE_HYPERDRIVE_LOCAL_CONNECTION_STRING_HYPERDRIVE: options.hyperdrive,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const untie = tether(child.pid ?? 0)
  const exited = new Promise<undefined>((resolve) => child.once('close', () => resolve(undefined)))
  const stop = async () => {
    child.kill('SIGTERM')
    await exited
    untie()
  }
  const lines: string[] = []
  const ready = new Promise<string>((resolve) => {
    for (const input of [child.stdout, child.stderr]) {
      createInterface({ input }).on('line', (line) => {
        lines.push(line)
        const [, url] = /Ready on (http:\S+)/.exec(line) ?? []
        if (url !== undefined) resolve(url)
      })
    }
  })
  const url = await Promise.race([ready, exited])
  if (url === undefined) {
    await stop()
    throw new Error(`wrangler dev did not start:\n${lines.join('\n')}`)
  }
  return {
    url,
    scheduled: async () => (await fetch(`${url}/cdn-cgi/handler/scheduled`)).text(),
    [Symbol.asyncDispose]: stop,
  }
}

// The block as a user would uncomment it, at the end of the file.
async function withHyperdrive(): Promise<string> {
  const text = await readFile(join(repository, 'wrangler.toml'), 'utf8')
  const [before, block] = text.split(/^(?=# \[\[hyperdrive\]\])/m)
  if (before === undefined || block === undefined) {
    throw new Error('expected a commented block [[hyperdrive]] in wrangler.toml, found none')
  }
  const main = before.replace(
    /^main = "(.*)"$/m,
    (_line, path: string) => `main = "${join(repository, path)}"`,
  )
  return main + block.replaceAll(/^# /gm, '')
}
