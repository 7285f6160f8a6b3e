import { z } from 'zod'

import type { Route } from '../route.ts'

/** `GET /metrics`: every counter and gauge, read from the database, for Prometheus. */
export const metricsRoute: Route = {
  method: 'GET',
  path: '/metrics',
  access: 'operator',
  describe: () => ({
    summary: 'Read the metrics',
    answers: {
      200: { description: 'The Prometheus text format', schema: z.string(), mediaType: 'text/plain' },
    },
  }),
  async handle(c, { metrics }) {
    const { contentType, body } = await metrics(c.get('sql'))
    return c.body(body, 200, { 'Content-Type': contentType })
  },
}
