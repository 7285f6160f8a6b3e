import { execFile, spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'

import { identify, isRunning, type ProcessIdentity } from '../../scripts/start/process-identity.ts'

const run = promisify(execFile)
const script = join(import.meta.dirname, '..', '..', 'scripts', 'start.ts')

/** A `npm start` under test. */
export interface Start {
  readonly pid: number
  /** All it has printed, on either output. */
  readonly lines: readonly string[]
  /** The exit code, once it has ended; null after a signal. */
  readonly exited: Promise<number | null>
  /** The first line that matches, already printed or still to come. Rejects when it ends before that. */
  line(pattern: RegExp): Promise<string>
  kill(signal: NodeJS.Signals): void
  /** The processes that it runs now. */
  children(): Promise<readonly ChildIdentity[]>
  /** The one of them that was started with such a command. Throws when there is none. */
  child(command: RegExp): Promise<ChildIdentity>
}

/** A process, and what it was started with. */
export interface ChildIdentity extends ProcessIdentity {
  readonly command: string
}

/** Runs what `npm start` runs, with these settings alone. */
export function runStart(settings: Readonly<Record<string, string>>): Start {
  const child = spawn(process.execPath, [script], { env: { PATH: process.env['PATH'], ...settings } })
  const lines: string[] = []
  const waiting = new Set<(line: string) => void>()
  for (const input of [child.stdout, child.stderr]) {
    createInterface({ input }).on('line', (line) => {
      lines.push(line)
      for (const take of waiting) take(line)
    })
  }
  const exited = new Promise<number | null>((resolve) => child.once('close', resolve))
  const pid = child.pid ?? 0
  return {
    pid,
    lines,
    exited,
    kill: (signal) => void child.kill(signal),
    children: () => listChildren(pid),
    child: async (command) => {
      const children = await listChildren(pid)
      const found = children.find((candidate) => command.test(candidate.command))
      if (found === undefined) throw new Error(`expected a child like ${command}, found none`)
      return found
    },
    line: (pattern) => {
      const { promise, resolve, reject } = Promise.withResolvers<string>()
      const take = (line: string): void => {
        if (pattern.test(line)) resolve(line)
      }
      lines.forEach(take)
      waiting.add(take)
      void exited.then(() => reject(new Error(`expected a line like ${pattern}, got:\n${lines.join('\n')}`)))
      return promise.finally(() => waiting.delete(take))
    },
  }
}

/** Those of the processes that still run. */
export async function stillRunning(processes: readonly ChildIdentity[]): Promise<readonly ChildIdentity[]> {
  const states = await Promise.all(processes.map(isRunning))
  return processes.filter((_, index) => states[index])
}

async function listChildren(parent: number): Promise<readonly ChildIdentity[]> {
  const { stdout } = await run('ps', ['-e', '-o', 'pid=,ppid=,args='])
  const rows = stdout.split('\n').map((row) => /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(row) ?? [])
  const found = rows.filter(([, , ppid]) => Number(ppid) === parent)
  const children = await Promise.all(
    found.map(async ([, pid, , command = '']) => {
      const identity = await identify(Number(pid))
      return identity === undefined ? [] : [{ ...identity, command }]
    }),
  )
  return children.flat()
}
