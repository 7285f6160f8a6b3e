import type { ExecutionContext } from 'hono'

import { readConfig, type Config } from './config.ts'
import { openDatabase } from './db/open.ts'
import type { Sql } from './db/sql.ts'
import { builtinJobs } from './handlers/builtin.ts'
import { readWebhookTargets } from './handlers/webhook-config.ts'
import type { WebhookTarget } from './handlers/webhook-target.ts'
import { createApp } from './http/app.ts'
import { createUnconfiguredApp } from './http/not-configured.ts'
import { createKick } from './kick.ts'
import { createLogger } from './log.ts'
import { renderMetrics } from './metrics.ts'
import { InvalidInput } from './payload.ts'
import { createPush } from './push.ts'
import { createRegistry, type AnyJob } from './registry.ts'
import type { TickReport } from './report.ts'
import { readMetrics } from './store/metrics.ts'
import { tick, type TickOptions } from './tick.ts'

/** What a Worker runs. */
export interface WorkerOptions<Jobs extends readonly AnyJob[]> {
  /** The job types of this deployment. The built-in ones (`test.echo`, `WEBHOOKS`) come on top. */
  readonly jobs: Jobs
  /** Path under which the routes live. Defaults to the root. */
  readonly basePath?: string
}

/** A module Worker (https://developers.cloudflare.com/workers/runtime-apis/handlers/). */
export interface Worker<Jobs extends readonly AnyJob[] = readonly AnyJob[]> {
  fetch(request: Request, env: object, context: ExecutionContext): Promise<Response>
  /** Awaits one tick. Rejects when the configuration is invalid, or the database is away or not ours. */
  scheduled(controller: unknown, env: object, context: ExecutionContext): Promise<void>
  /** Only a type: lets `createClient<typeof worker>` know the payloads. */
  readonly jobs?: Jobs
}

/**
 * Creates the whole of a user's project: HTTP routes and the scheduled tick over these jobs. Settings come
 * from the Worker's `env`; see the README for each.
 *
 * @example
 * export default createWorker({ jobs: [sendMail] })
 */
export function createWorker<const Jobs extends readonly AnyJob[]>(
  options: WorkerOptions<Jobs>,
): Worker<Jobs> {
  // One root an isolate: `env` stays the same. It holds no socket; those belong to one invocation.
  const roots = new WeakMap<object, Root>()
  const rootOf = (env: object): Root => {
    const root = roots.get(env) ?? createRoot(options, env)
    roots.set(env, root)
    return root
  }
  return {
    async fetch(request, env, context) {
      return rootOf(env).fetch(request, env, context)
    },
    async scheduled(_controller, env) {
      await rootOf(env).scheduled()
    },
  }
}

/** After the answer a Worker has 30 s left. */
const KICK_WINDOW_MS = 20_000

interface Root {
  readonly fetch: (request: Request, env: object, context: ExecutionContext) => Response | Promise<Response>
  readonly scheduled: () => Promise<void>
}

function createRoot({ jobs, basePath }: WorkerOptions<readonly AnyJob[]>, env: object): Root {
  const { config, problems } = readConfig(env as Record<string, unknown>, 'workers')
  if (problems !== undefined) return unconfigured(problems)
  try {
    return configured(config, jobs, env, basePath)
  } catch (error) {
    return unconfigured([error instanceof Error ? error.message : String(error)])
  }
}

function configured(
  config: Config,
  jobs: readonly AnyJob[],
  env: object,
  basePath: string | undefined,
): Root {
  const log = createLogger(config.logLevel)
  const registry = createRegistry(
    [...builtinJobs(webhookTargets(config.webhooks, env)), ...jobs],
    config.jobs,
  )
  const open = () => openDatabase(config.database)
  const push = config.push && createPush(config.push)
  const runTick = (options: TickOptions): Promise<TickReport> =>
    tick(
      {
        registry,
        openDatabase: open,
        env,
        environment: config.environment,
        settings: config.tick,
        log,
        ...(push && { push }),
      },
      options,
    )
  const kick = createKick({ tick: runTick, windowMs: Math.min(KICK_WINDOW_MS, config.tickHttpWindowMs) })
  const app = createApp({
    registry,
    environment: config.environment,
    tokens: config.tokens,
    openDatabase: open,
    tick: runTick,
    tickWindowMs: config.tickHttpWindowMs,
    ...(config.kick && { onEnqueued: (waitUntil) => waitUntil?.(kick()) }),
    metrics: async (sql: Sql) => renderMetrics(await readMetrics(sql)),
    log,
    ...(basePath === undefined ? {} : { basePath }),
  })
  return {
    fetch: (request, env, context) => app.fetch(request, env, context),
    async scheduled() {
      const { tickWindowMs: windowMs, tickMaxJobs: maxJobs, tickLingerMs: lingerMs } = config
      const report = await runTick({ windowMs, maxJobs, ...(lingerMs !== undefined && { lingerMs }) })
      if (report.stopped === 'error' || report.stopped === 'wrong_database')
        throw new Error(`tick: ${report.error}`)
    },
  }
}

function webhookTargets(setting: string | undefined, env: object): ReadonlyMap<string, WebhookTarget> {
  if (setting === undefined) return new Map()
  const read = readWebhookTargets(setting, env as Record<string, unknown>)
  if (!read.ok) throw new InvalidInput(read.issues)
  return read.targets
}

function unconfigured(problems: readonly string[]): Root {
  const app = createUnconfiguredApp(problems, createLogger())
  return {
    fetch: (request, env, context) => app.fetch(request, env, context),
    scheduled: () => Promise.reject(new Error(`not configured: ${problems.join('; ')}`)),
  }
}
