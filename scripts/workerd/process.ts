import { spawn, type ChildProcess } from 'node:child_process'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { workerdEnvironment } from './config.ts'
import { tether } from './tether.ts'

const startTimeoutMs = 10_000
const socketSchema = z.object({ socket: z.enum(['worker', 'control']), port: z.number() })

/** A workerd that has been started, and may not listen yet. */
export interface WorkerdProcess {
  readonly child: ChildProcess
  /** Resolves when it has ended and all it printed has been read, with how: `code 0`, `signal SIGKILL`. */
  readonly exited: Promise<string>
  /** Resolves when it listens; rejects when that takes more than 10 s. */
  readonly listening: Promise<Ports>
}

/** The ports on 127.0.0.1 of the Worker and of the control service beside it. */
export type Ports = Readonly<Record<'worker' | 'control', number>>

/** Starts workerd on a configuration file, tied to this process. */
export function launchWorkerd(
  config: string,
  vars: Readonly<Record<string, string>>,
  onLog: (line: string) => void,
): WorkerdProcess {
  const child = spawn(findBinary(), ['serve', '--experimental', '--control-fd=3', config], {
    env: { ...process.env, ...workerdEnvironment(vars) },
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    // Its own session: Ctrl-C in a terminal reaches us alone, and we let work end before we stop it.
    detached: true,
  })
  const [, stdout, stderr, control] = child.stdio as readonly unknown[] as readonly Readable[]
  for (const output of [stdout, stderr]) onLine(output, onLog)
  return { child, exited: untilExit(child), listening: Promise.race([untilListening(control), tooLate()]) }
}

// Wrangler's own workerd, for it knows every compatibility date that wrangler lets through.
function findBinary(): string {
  const wrangler = createRequire(import.meta.url).resolve('wrangler/package.json')
  return (createRequire(wrangler)('workerd') as { readonly default: string }).default
}

async function untilExit(child: ChildProcess): Promise<string> {
  const untie = child.pid === undefined ? () => undefined : tether(child.pid)
  const how = await new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(error.message))
    child.once('close', (code, signal) => resolve(signal === null ? `code ${code}` : `signal ${signal}`))
  })
  untie()
  return how
}

async function untilListening(control: Readable | undefined): Promise<Ports> {
  const ports = { worker: 0, control: 0 }
  await new Promise<void>((resolve) => {
    onLine(control, (line) => {
      if (line === '') return
      const { socket, port } = socketSchema.parse(JSON.parse(line))
      ports[socket] = port
      if (ports.worker > 0 && ports.control > 0) resolve()
    })
  })
  return ports
}

async function tooLate(): Promise<never> {
  await sleep(startTimeoutMs, undefined, { ref: false })
  throw new Error(`expected workerd to listen within ${startTimeoutMs} ms, it did not`)
}

function onLine(input: Readable | undefined, take: (line: string) => void): void {
  if (input !== undefined) createInterface({ input }).on('line', take)
}
