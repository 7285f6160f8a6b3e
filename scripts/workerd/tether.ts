import { spawn } from 'node:child_process'

/**
 * Ties a process to this one: whatever ends this one, SIGKILL included, ends it too, by SIGKILL. Returns the
 * function that unties them, for when the process has ended and its number may return.
 */
export function tether(pid: number): () => void {
  // The kernel closes our end of the pipe when we die, and only then does the read return.
  const watcher = spawn('/bin/sh', ['-c', 'read -r _; kill -9 "$0"', String(pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  })
  watcher.on('error', () => undefined)
  watcher.unref()
  return () => void watcher.kill('SIGKILL')
}
