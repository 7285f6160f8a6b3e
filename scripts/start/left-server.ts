import { setTimeout as sleep } from 'node:timers/promises'
import { findServer } from '../postgres/pidfile.ts'

const patienceMs = 15_000

/**
 * Stops the server that a killed start has left on its data folder, and returns its process number; undefined
 * when there is none. Only for a folder whose lock is ours.
 */
export async function stopLeftServer(dataDir: string): Promise<number | undefined> {
  const pid = await findServer(dataDir)
  if (pid === undefined) return undefined
  process.kill(pid, 'SIGINT')
  for (const deadline = Date.now() + patienceMs; (await findServer(dataDir)) === pid; await sleep(20)) {
    // An immediate shutdown; the next start recovers.
    if (Date.now() > deadline) process.kill(pid, 'SIGQUIT')
  }
  return pid
}
