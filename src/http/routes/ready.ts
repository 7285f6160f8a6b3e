import { z } from 'zod'

import type { Recognise } from '../auth.ts'
import { checkReadiness, type ReadinessReport } from '../readiness.ts'
import type { HttpContext } from '../request.ts'
import type { Route } from '../route.ts'

/** How long a result answers those who have no token. */
const KEPT_MS = 30_000

/**
 * `GET /readyz`: the database is reachable, its schema is in range, and it is ours. Who has no token of scope
 * enqueue or operator is answered from the last result, so that nobody can keep the database awake.
 */
export function createReadyRoute(recognise: Recognise): Route {
  let last: { readonly at: number; readonly report: ReadinessReport } | undefined
  return {
    method: 'GET',
    path: '/readyz',
    access: 'anyone',
    describe,
    async handle(c, { environment }) {
      const callers = await recognise(c.req.header('Authorization'))
      const mayAsk = callers.some(({ scope }) => scope !== 'cron')
      if (last !== undefined && !mayAsk && Date.now() - last.at < KEPT_MS) return answer(c, last.report)
      const report = await checkReadiness(c.get('sql'), environment, c.get('log'))
      last = { at: Date.now(), report }
      return answer(c, report)
    },
  }
}

const describe: Route['describe'] = () => ({
  summary: 'Ask whether it is ready',
  description: 'Without a token of scope enqueue or operator the answer is up to 30 s old.',
  answers: {
    200: {
      description: 'Jobs can be enqueued and run',
      schema: z.object({
        status: z.literal('ok'),
        environment: z.string(),
        paused: z.boolean(),
        schema_version: z.int(),
        last_tick_age_seconds: z
          .number()
          .optional()
          .meta({ description: 'Absent when no tick has ended yet' }),
        expired_leases: z.int().meta({ description: 'Counted up to 1000' }),
      }),
    },
    503: {
      description: 'They cannot',
      schema: z.object({ error: z.string(), code: z.literal('not_ready'), problems: z.array(z.string()) }),
    },
  },
})

function answer(c: HttpContext, { problems, state }: ReadinessReport): Response {
  if (state === undefined || problems.length > 0) {
    return c.json({ error: `not ready: ${problems.join('; ')}`, code: 'not_ready', problems }, 503)
  }
  return c.json({
    status: 'ok',
    environment: state.ownership.environment,
    paused: state.ownership.paused,
    schema_version: state.schemaVersion,
    last_tick_age_seconds: state.lastTickAgeSeconds ?? undefined,
    expired_leases: state.expiredLeases,
  })
}
