import { z } from 'zod'

import type { Route } from '../route.ts'

/** `GET /healthz`: this code runs. It asks the database nothing. */
export const healthRoute: Route = {
  method: 'GET',
  path: '/healthz',
  access: 'anyone',
  describe: () => ({
    summary: 'Ask whether it is alive',
    answers: { 200: { description: 'It is', schema: z.object({ status: z.literal('ok') }) } },
  }),
  handle: (c) => c.json({ status: 'ok' }),
}
