import type { ChildProcess } from 'node:child_process'
import { closeSync, fstatSync, openSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'

import { launch } from './account.ts'
import { lastLines, superuser, type Cluster } from './cluster.ts'

const stopTimeoutMs = 15_000

/** A server process: a child of this one, on 127.0.0.1 only. */
export interface Server {
  readonly port: number
  readonly pid: number
  readonly logFile: string
  /** Resolves when the server has ended, by `stop` or by itself, with how: `code 0`, `signal SIGKILL`. */
  readonly exited: Promise<string>
  /** The superuser's connection URL, with the password. The database defaults to `postgres`. */
  url(database?: string): string
  /**
   * Ends the server: `fast` (the default) disconnects clients and writes a checkpoint, `immediate` leaves that
   * to recovery at the next start, and so does `fast` after 15 s. A repeated call waits for the same end.
   */
  stop(mode?: 'fast' | 'immediate'): Promise<void>
  /** The last lines that this run has logged. */
  logTail(): Promise<string>
}

/** What a server is told at its start. */
export interface ServerOptions {
  readonly port: number
  readonly password: string
  readonly settings: Readonly<Record<string, string>>
}

/** Starts the server process on a prepared data folder. It does not answer yet, and may end at once. */
export function launchServer(cluster: Cluster, { port, password, settings }: ServerOptions): Server {
  const logFile = `${cluster.dataDir}.log`
  const log = openSync(logFile, 'a', 0o600)
  const logStart = fstatSync(log).size
  const all = { ...settings, port, listen_addresses: '127.0.0.1', unix_socket_directories: '' }
  const args = Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const child = launch(
    cluster.account,
    join(cluster.binaries, 'postgres'),
    ['-D', cluster.dataDir, ...args],
    {
      cwd: cluster.binaries,
      env: { ...process.env, LC_ALL: 'C' },
      stdio: ['ignore', log, log],
      // Its own session: Ctrl-C in a terminal reaches us alone, and we let work end before we stop it.
      detached: true,
    },
  )
  closeSync(log)
  const exited = untilExit(child)
  return {
    port,
    pid: child.pid ?? 0,
    logFile,
    exited,
    url: (database = 'postgres') => `postgres://${superuser}:${password}@127.0.0.1:${port}/${database}`,
    stop: (mode = 'fast') => stop(child, exited, mode),
    logTail: () => readTail(logFile, logStart),
  }
}

async function untilExit(child: ChildProcess): Promise<string> {
  const stopAtExit = (): boolean => child.kill('SIGINT')
  process.once('exit', stopAtExit)
  const how = await new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(error.message))
    child.once('exit', (code, signal) => resolve(signal === null ? `code ${code}` : `signal ${signal}`))
  })
  process.off('exit', stopAtExit)
  return how
}

async function stop(child: ChildProcess, exited: Promise<string>, mode: 'fast' | 'immediate'): Promise<void> {
  child.kill(mode === 'fast' ? 'SIGINT' : 'SIGQUIT')
  const impatience = setTimeout(() => child.kill('SIGQUIT'), stopTimeoutMs)
  await exited
  clearTimeout(impatience)
}

async function readTail(logFile: string, logStart: number): Promise<string> {
  const file = await open(logFile)
  try {
    const length = (await file.stat()).size - logStart
    const { buffer } = await file.read(Buffer.alloc(length), 0, length, logStart)
    return lastLines(buffer.toString('utf8'))
  } finally {
    await file.close()
  }
}
