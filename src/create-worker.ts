import type { ExecutionContext } from 'hono'

import type { AnyJob } from './registry.ts'
import { createRoot, type Root } from './root.ts'

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
    const root = roots.get(env) ?? createRoot({ ...options, env, runtime: 'workers' })
    roots.set(env, root)
    return root
  }
  return {
    fetch: (request, env, context) => rootOf(env).fetch(request, env, context),
    async scheduled(_controller, env) {
      await rootOf(env).tick()
    },
  }
}
