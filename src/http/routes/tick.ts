import type { z } from 'zod'

import { readOptionalJson } from '../body.ts'
import { answerMethodNotAllowed } from '../errors.ts'
import { fields, integer, read } from '../input.ts'
import { reportJson, reportSchema } from '../report.ts'
import type { HttpContext } from '../request.ts'
import type { HttpDependencies, Route, RouteDescription } from '../route.ts'
import { waitUntilOf } from '../wait-until.ts'

/** `POST /tick`: runs one tick and answers its report. */
export const tickRoute: Route = {
  method: 'POST',
  path: '/tick',
  access: 'cron',
  describe: ({ tickWindowMs }) => ({
    ...DESCRIPTION,
    request: {
      body: { required: false, content: { 'application/json': { schema: tickOptions(tickWindowMs) } } },
    },
    answers: { ...DESCRIPTION.answers(), 413: 'body_too_large', 415: 'unsupported_media_type' },
  }),
  async handle(c, dependencies) {
    const sent = await readOptionalJson(c.req.raw)
    return runTick(c, dependencies, sent === undefined ? {} : sent)
  },
}

/** `GET /tick`: the same, for platforms whose cron is a GET; its options are query parameters. */
export const tickByGetRoute: Route = {
  method: 'GET',
  path: '/tick',
  access: 'cron',
  describe: ({ tickWindowMs }) => ({
    ...DESCRIPTION,
    request: { query: tickOptions(tickWindowMs) },
    answers: DESCRIPTION.answers(),
  }),
  handle(c, dependencies) {
    // Hono serves a HEAD as a GET, and asking for headers must not run jobs.
    if (c.req.raw.method === 'HEAD') return answerMethodNotAllowed(c, ['GET', 'POST'])
    return runTick(c, dependencies, withNumbers(c.req.query()))
  },
}

const DESCRIPTION = {
  summary: 'Run a tick',
  description: 'Leases, runs and settles due jobs until none is left or the window is used up.',
  answers: (): RouteDescription['answers'] => ({
    200: { description: 'What the tick did', schema: reportSchema() },
    400: 'invalid_json or invalid_request',
    503: { description: 'The same, when it stopped for error or wrong_database', schema: reportSchema() },
  }),
}

/** No tick is shorter than this. */
const MIN_WINDOW_MS = 1_000

/** A bound that no window can reach. */
const MOST_JOBS = 1_000_000

function tickOptions(tickWindowMs: number) {
  return fields({
    window_ms: integer(MIN_WINDOW_MS, tickWindowMs).default(tickWindowMs),
    max_jobs: integer(0, MOST_JOBS).default(0).meta({ description: '0 leaves it to the window' }),
  })
}

async function runTick(
  c: HttpContext,
  { tick, tickWindowMs }: HttpDependencies,
  sent: unknown,
): Promise<Response> {
  const options: z.output<ReturnType<typeof tickOptions>> = read(tickOptions(tickWindowMs), sent)
  const ticking = tick({
    windowMs: options.window_ms,
    maxJobs: options.max_jobs,
    signal: c.req.raw.signal,
  })
  // A client that leaves aborts the signal; the tick then still has to give its leases back.
  waitUntilOf(c)?.(ticking)
  const report = await ticking
  const failed = report.stopped === 'error' || report.stopped === 'wrong_database'
  return c.json(reportJson(report), failed ? 503 : 200)
}

/** Query parameters are text; those that are whole numbers are meant as such. */
function withNumbers(query: Readonly<Record<string, string>>): object {
  const numbers = Object.entries(query).map(([name, text]) => [
    name,
    /^\d+$/.test(text) ? Number(text) : text,
  ])
  return Object.fromEntries(numbers) as object
}
