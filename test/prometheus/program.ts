import { spawn } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { createInterface } from 'node:readline'

import { tether } from '../../scripts/workerd/tether.ts'

/** The file of an installed program, undefined when PATH has none. */
export async function findProgram(name: string): Promise<string | undefined> {
  for (const folder of (process.env['PATH'] ?? '').split(delimiter)) {
    const path = join(folder, name)
    const executable = await access(path, constants.X_OK).then(
      () => true,
      () => false,
    )
    if (executable) return path
  }
  return undefined
}

/**
 * Starts a server and resolves once its log says that it is ready; it ends with this process at the latest.
 * Returns the function that stops it.
 */
export async function startProgram(
  path: string,
  flags: readonly string[],
  isReady: (line: string) => boolean,
): Promise<() => Promise<void>> {
  const child = spawn(path, flags, { stdio: ['ignore', 'ignore', 'pipe'] })
  const untie = child.pid === undefined ? () => undefined : tether(child.pid)
  const exited = new Promise<void>((resolve) => child.once('close', () => resolve()))
  child.once('error', () => undefined)
  const stop = async () => {
    child.kill('SIGTERM')
    await exited
    untie()
  }
  const lines: string[] = []
  const ready = new Promise<true>((resolve) => {
    createInterface({ input: child.stderr }).on('line', (line) => {
      lines.push(line)
      if (isReady(line)) resolve(true)
    })
  })
  if ((await Promise.race([ready, exited])) !== true) {
    untie()
    throw new Error(`expected ${path} to start, it ended:\n${lines.join('\n')}`)
  }
  return stop
}
