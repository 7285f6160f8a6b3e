import { execFile } from 'node:child_process'
import { readFile, readlink, realpath, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

import { PostgresStartError } from './error.ts'

const run = promisify(execFile)

/** Throws `PostgresStartError`, naming folder and process, while a server lives in the data folder. */
export async function refuseBusy(dataDir: string): Promise<void> {
  const pid = await findServer(dataDir)
  if (pid === undefined) return
  throw new PostgresStartError(
    `data folder ${dataDir} is in use by the postgres process ${pid}: stop it first (kill -INT ${pid})`,
  )
}

/**
 * The process of the server that lives in the data folder. The pid file of one that was killed is removed, even
 * if its number belongs to another process by now. Reads the file once, for a server that ends removes it.
 */
export async function findServer(dataDir: string): Promise<number | undefined> {
  const pidFile = join(dataDir, 'postmaster.pid')
  const content = await readFile(pidFile, 'utf8').catch(() => undefined)
  if (content === undefined) return undefined
  const pid = Number.parseInt(content, 10)
  if (await isServerOf(pid, dataDir)) return pid
  await rm(pidFile, { force: true })
  return undefined
}

/** Whether a process has this number, ours or anyone's. */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

// A living pid is not enough: in a container numbers return soon, and nobody may reap a zombie.
async function isServerOf(pid: number, dataDir: string): Promise<boolean> {
  if (!Number.isInteger(pid) || !isAlive(pid)) return false
  return process.platform === 'linux' ? worksIn(pid, dataDir) : isPostgres(pid)
}

async function worksIn(pid: number, dataDir: string): Promise<boolean> {
  try {
    return (await readlink(`/proc/${pid}/cwd`)) === (await realpath(dataDir))
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ENOENT'
  }
}

async function isPostgres(pid: number): Promise<boolean> {
  return run('ps', ['-o', 'comm=', '-p', String(pid)]).then(
    ({ stdout }) => stdout.includes('postgres'),
    () => true,
  )
}
