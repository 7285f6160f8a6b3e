import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import type { Bundle } from './workerd/bundle.ts'
import { workerdConfig } from './workerd/config.ts'
import { launchWorkerd, type Ports, type WorkerdProcess } from './workerd/process.ts'
import { withScratchFolder } from './workerd/scratch.ts'

const configFile = 'config.capnp'
const drainMs = 2_000
const quotedLines = 8
const resultSchema = z.object({ outcome: z.string() })

/** A workerd process that serves a bundle: one process, no children. */
export interface Workerd {
  /** The Worker's address, without a slash at its end. */
  readonly url: string
  readonly pid: number
  /** Resolves when the process has ended, by `stop` or by itself, with how: `code 0`, `signal SIGKILL`. */
  readonly exited: Promise<string>
  /**
   * Fires the Worker's cron handler and waits for it and its `waitUntil`. Never throws: `outcome` is `ok`, what
   * workerd calls the failure (`exception`, …), or `unreachable` when the process ended or ends meanwhile.
   */
  scheduled(event?: ScheduledEvent): Promise<ScheduledResult>
  /** Lets requests under way end, for 2 s at most, then ends the process. A repeated call waits for the same end. */
  stop(): Promise<void>
  /** Ends the process at once: a handler that spins hears nothing softer. */
  kill(): void
}

/** What a cron handler is told: by default `* * * * *`, and now in milliseconds of the Unix epoch. */
export interface ScheduledEvent {
  readonly cron?: string | undefined
  readonly scheduledTime?: number | undefined
}

/** How a cron handler ended. */
export interface ScheduledResult {
  readonly ok: boolean
  readonly outcome: string
}

/** What to serve, and where. */
export interface WorkerdOptions {
  readonly bundle: Bundle
  /** The port on 127.0.0.1. Defaults to a free one. */
  readonly port?: number | undefined
  /** The Worker's `env`, over the bundle's own vars. */
  readonly vars?: Readonly<Record<string, string>> | undefined
  /** Takes each line that the Worker logs and workerd prints. Defaults to dropping them. */
  readonly onLog?: ((line: string) => void) | undefined
}

/**
 * Serves a bundle in workerd, Cloudflare's own runtime, and resolves once it listens. Throws, quoting what it
 * printed, when it ends before that. Touches no network but what the Worker calls, and leaves no file.
 *
 * The process does not hear the terminal's Ctrl-C: the caller stops it. A caller that ends otherwise, even by
 * SIGKILL, takes it along.
 */
export async function startWorkerd(options: WorkerdOptions): Promise<Workerd> {
  const { bundle, port = 0, onLog = () => undefined } = options
  const vars = { ...bundle.vars, ...options.vars }
  return withScratchFolder(async (folder) => {
    // workerd has read them once it listens.
    await writeFiles(folder, bundle, workerdConfig(bundle, Object.keys(vars), port))
    const printed: string[] = []
    const workerd = launchWorkerd(join(folder, configFile), vars, (line) => {
      if (printed.length < quotedLines) printed.push(line)
      onLog(line)
    })
    return serve(workerd, await untilListening(workerd, printed))
  })
}

async function writeFiles(folder: string, bundle: Bundle, config: string): Promise<void> {
  await writeFile(join(folder, configFile), config)
  await Promise.all(
    bundle.modules.map(({ content }, index) => writeFile(join(folder, `module-${index}`), content)),
  )
}

async function untilListening(workerd: WorkerdProcess, printed: readonly string[]): Promise<Ports> {
  const { child, exited, listening } = workerd
  try {
    const ports = await Promise.race([listening, exited])
    if (typeof ports !== 'string') return ports
    throw new Error(`workerd did not start, it ended with ${ports}:\n${printed.join('\n')}`)
  } catch (error) {
    child.kill('SIGKILL')
    await exited
    throw error
  }
}

function serve({ child, exited }: WorkerdProcess, ports: Ports): Workerd {
  return {
    url: `http://127.0.0.1:${ports.worker}`,
    pid: child.pid ?? 0,
    exited,
    scheduled: (event) => fire(`http://127.0.0.1:${ports.control}`, event),
    stop: async () => {
      child.kill('SIGTERM')
      const impatience = setTimeout(() => child.kill('SIGKILL'), drainMs)
      await exited
      clearTimeout(impatience)
    },
    kill: () => void child.kill('SIGKILL'),
  }
}

async function fire(control: string, event: ScheduledEvent = {}): Promise<ScheduledResult> {
  const { cron = '* * * * *', scheduledTime = Date.now() } = event
  try {
    const response = await fetch(control, { method: 'POST', body: JSON.stringify({ cron, scheduledTime }) })
    const { outcome } = resultSchema.parse(await response.json())
    return { ok: outcome === 'ok', outcome }
  } catch {
    return { ok: false, outcome: 'unreachable' }
  }
}
