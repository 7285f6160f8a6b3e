import { z } from 'zod'

import type { Route } from '../route.ts'

/** `GET /openapi.json`: the contract of these routes, made from them when somebody first asks. */
export function createOpenApiRoute(routes: readonly Route[]): Route {
  let text: string | undefined
  const route: Route = {
    method: 'GET',
    path: '/openapi.json',
    access: 'anyone',
    describe: () => ({
      summary: 'Read this contract',
      answers: { 200: { description: 'An OpenAPI 3.1 document', schema: z.looseObject({}) } },
    }),
    async handle(c, dependencies) {
      // The generator is a third of the start-up of all of this, and an enqueue does not need it.
      const { openApiDocument } = await import('../openapi.ts')
      text ??= JSON.stringify(openApiDocument([...routes, route], dependencies))
      return c.body(text, 200, { 'Content-Type': 'application/json' })
    },
  }
  return route
}
