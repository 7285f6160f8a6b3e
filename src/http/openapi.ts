import { OpenAPIHono, type RouteConfig } from '@hono/zod-openapi'
import { z } from 'zod'

import type { Answer, HttpDependencies, Route } from './route.ts'

/** The OpenAPI 3.1 document of these routes. */
export function openApiDocument(routes: readonly Route[], dependencies: HttpDependencies): object {
  const app = new OpenAPIHono().basePath(dependencies.basePath ?? '/')
  const registry = app.openAPIRegistry
  const error = errorSchema()
  registry.registerComponent('securitySchemes', SCHEME, { type: 'http', scheme: 'bearer' })
  for (const route of routes) registry.registerPath(pathOf(route, dependencies, error))
  return app.getOpenAPI31Document({
    openapi: '3.1.0',
    info: { title: 'Tidegate', version: '1', description: 'Durable jobs on Postgres' },
  })
}

const SCHEME = 'token'

/** What any route that asks for a token, or reaches the database, can answer. */
const TOKEN_ANSWERS = {
  401: 'unauthorized: no token, or one that is not known',
  403: 'forbidden: a token of another scope',
  500: 'internal',
  503: 'database_unavailable or schema_missing',
}

function pathOf(route: Route, dependencies: HttpDependencies, error: z.ZodType): RouteConfig {
  const { answers, summary, description, request } = route.describe(dependencies)
  const isOpen = route.access === 'anyone'
  const all: Readonly<Record<number, Answer>> = isOpen ? answers : { ...TOKEN_ANSWERS, ...answers }
  return {
    method: route.method === 'GET' ? 'get' : 'post',
    path: route.path,
    summary,
    ...(description !== undefined && { description }),
    ...(request !== undefined && { request }),
    ...(!isOpen && { security: [{ [SCHEME]: [] }], tags: [`scope ${route.access}`] }),
    responses: Object.fromEntries(
      Object.entries(all).map(([status, answer]) => [status, responseOf(answer, error)]),
    ),
  }
}

function responseOf(answer: Answer, error: z.ZodType): RouteConfig['responses'][string] {
  if (typeof answer === 'string') {
    return { description: answer, content: { 'application/json': { schema: error } } }
  }
  const { description, schema, mediaType = 'application/json' } = answer
  return { description, content: { [mediaType]: { schema } } }
}

function errorSchema(): z.ZodType {
  const issue = z.object({
    path: z.string().meta({ description: 'Dotted, from the root of the input' }),
    message: z.string(),
  })
  return z
    .object({
      error: z.string().meta({ description: 'A sentence for people; it may change' }),
      code: z.string().meta({ description: 'For programs; it stays' }),
      issues: z.array(issue).optional(),
    })
    .meta({ id: 'Error' })
}
