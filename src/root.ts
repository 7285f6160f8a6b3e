import type { ExecutionContext } from 'hono'

import { readConfig, type Config, type Runtime } from './config.ts'
import { openDatabase } from './db/open.ts'
import { builtinJobs } from './handlers/builtin.ts'
import { readWebhookTargets } from './handlers/webhook-config.ts'
import type { WebhookTarget } from './handlers/webhook-target.ts'
import { createApp } from './http/app.ts'
import { createUnconfiguredApp } from './http/not-configured.ts'
import type { WaitUntil } from './http/wait-until.ts'
import { createKick } from './kick.ts'
import { createLogger, type Logger } from './log.ts'
import { renderMetrics } from './metrics.ts'
import { InvalidInput } from './payload.ts'
import { createPush } from './push.ts'
import { createRegistry, type AnyJob } from './registry.ts'
import type { TickReport } from './report.ts'
import { readMetrics } from './store/metrics.ts'
import { tick } from './tick.ts'
import type { TickOptions } from './tick-options.ts'

/** What a root serves and where its settings come from. */
export interface RootOptions {
  /** The job types of this deployment. The built-in ones (`test.echo`, `WEBHOOKS`) come on top. */
  readonly jobs: readonly AnyJob[]
  /** The settings, and what handlers get as their `env`: a Worker's bindings, or `process.env`. */
  readonly env: object
  /** Defaults to `node`, which runs ten jobs at a time where a Worker runs four. */
  readonly runtime?: Runtime
  /** Path under which the routes live. Defaults to the root. */
  readonly basePath?: string
}

/**
 * The whole of Tidegate over one environment: the API as a fetch handler, and the tick. It belongs to no
 * platform and holds no socket between invocations.
 */
export interface Root {
  /** Serves the API. With invalid settings every route but `/healthz` answers 503 and names them. */
  readonly fetch: (request: Request, env?: object, context?: ExecutionContext) => Promise<Response>
  /** Runs one scheduled tick. Rejects when the settings are invalid, or the database is away or not ours. */
  readonly tick: (options?: Partial<TickOptions>) => Promise<TickReport>
  readonly log: Logger
}

/**
 * Creates a root. A function platform serves `fetch` and lets its cron call `/tick`; see docs/deploy.md.
 *
 * @example
 * const root = createRoot({ jobs: [sendMail], env: process.env })
 * export const GET = root.fetch
 * export const POST = root.fetch
 */
export function createRoot(options: RootOptions): Root {
  const { config, problems } = readConfig(options.env as Record<string, unknown>, options.runtime ?? 'node')
  if (problems !== undefined) return unconfigured(problems)
  try {
    return configured(config, options)
  } catch (error) {
    return unconfigured([error instanceof Error ? error.message : String(error)])
  }
}

/** After its answer an invocation of Cloudflare has 30 s left. */
const KICK_WINDOW_MS = 20_000

function configured(config: Config, { jobs, env, basePath }: RootOptions): Root {
  const log = createLogger(config.logLevel)
  const builtin = builtinJobs(webhookTargets(config.webhooks, env))
  const registry = createRegistry([...builtin, ...jobs], config.jobs)
  const open = () => openDatabase(config.database)
  const dependencies = {
    registry,
    openDatabase: open,
    env,
    environment: config.environment,
    settings: config.tick,
    log,
    ...(config.push && { push: createPush(config.push) }),
  }
  const runTick = (options: TickOptions) => tick(dependencies, options)
  const kick = createKick({ tick: runTick, windowMs: Math.min(KICK_WINDOW_MS, config.tickHttpWindowMs) })
  const kickAfter = (waitUntil: WaitUntil | undefined) => {
    const kicking = kick()
    waitUntil?.(kicking)
  }
  const app = createApp({
    registry,
    environment: config.environment,
    tokens: config.tokens,
    openDatabase: open,
    tick: runTick,
    tickWindowMs: config.tickHttpWindowMs,
    metrics: async (sql) => renderMetrics(await readMetrics(sql)),
    log,
    ...(config.kick && { onEnqueued: kickAfter }),
    ...(basePath !== undefined && { basePath }),
  })
  return {
    log,
    fetch: async (request, env, context) => app.fetch(request, env, context),
    async tick(options) {
      const { tickWindowMs: windowMs, tickMaxJobs: maxJobs, tickLingerMs: lingerMs } = config
      const report = await runTick({
        windowMs,
        maxJobs,
        ...(lingerMs !== undefined && { lingerMs }),
        ...options,
      })
      if (report.stopped === 'error' || report.stopped === 'wrong_database') {
        throw new Error(`the tick failed: ${report.error ?? report.stopped}`)
      }
      return report
    },
  }
}

function unconfigured(problems: readonly string[]): Root {
  const log = createLogger()
  const app = createUnconfiguredApp(problems, log)
  return {
    log,
    fetch: async (request, env, context) => app.fetch(request, env, context),
    tick: () => Promise.reject(new Error(`not configured: ${problems.join('; ')}`)),
  }
}

function webhookTargets(setting: string | undefined, env: object): ReadonlyMap<string, WebhookTarget> {
  if (setting === undefined) return new Map()
  const read = readWebhookTargets(setting, env as Record<string, unknown>)
  if (!read.ok) throw new InvalidInput(read.issues)
  return read.targets
}
