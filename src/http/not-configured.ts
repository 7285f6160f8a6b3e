import { Hono } from 'hono'

import type { Logger } from '../log.ts'
import { answerError, HttpError } from './errors.ts'
import { frame, type HttpEnv } from './request.ts'

/**
 * Creates what stands in for the API while the configuration is missing or invalid: every route but
 * `/healthz`, under whatever base path, answers 503 and names the settings. `problems` must not hold their values.
 */
export function createUnconfiguredApp(problems: readonly string[], log: Logger): Hono<HttpEnv> {
  const message = `not configured: ${problems.join('; ')}`
  log.error('not configured', { problems: problems.join('; ') })
  const app = new Hono<HttpEnv>()
  app.onError(answerError)
  app.use(frame(log))
  app.all('*', (c) => {
    if (c.req.method === 'GET' && c.req.path.endsWith('/healthz')) return c.json({ status: 'ok' })
    throw new HttpError(503, 'not_configured', message)
  })
  return app
}
