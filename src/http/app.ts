import { Hono } from 'hono'
import { methodNotAllowed } from 'hono/method-not-allowed'
import { mergePath } from 'hono/utils/url'

import { createRecognise, requireScope, type Recognise } from './auth.ts'
import { withDatabase } from './database.ts'
import { answerError, answerMethodNotAllowed, answerNotFound } from './errors.ts'
import { frame, type HttpEnv } from './request.ts'
import type { HttpDependencies, Route } from './route.ts'
import { cancelRoute } from './routes/cancel.ts'
import { enqueueRoute } from './routes/enqueue.ts'
import { getJobRoute } from './routes/get-job.ts'
import { healthRoute } from './routes/health.ts'
import { metricsRoute } from './routes/metrics.ts'
import { createOpenApiRoute } from './routes/openapi.ts'
import { createReadyRoute } from './routes/ready.ts'
import { requeueRoute } from './routes/requeue.ts'
import { tickByGetRoute, tickRoute } from './routes/tick.ts'

/** Creates the HTTP API over these dependencies. It holds no socket between requests. */
export function createApp(dependencies: HttpDependencies): Hono<HttpEnv> {
  const recognise = createRecognise(dependencies.tokens)
  const app = new Hono<HttpEnv>()
  app.onError(answerError)
  app.notFound(answerNotFound)
  app.use(frame(dependencies.log))
  app.use(methodNotAllowed({ app, onMethodNotAllowed: answerMethodNotAllowed }))
  app.use(withDatabase(dependencies.openDatabase))
  const routes = routesWith(recognise)
  for (const route of [...routes, createOpenApiRoute(routes)]) mount(app, route, recognise, dependencies)
  return app
}

function routesWith(recognise: Recognise): readonly Route[] {
  return [
    enqueueRoute,
    getJobRoute,
    requeueRoute,
    cancelRoute,
    tickRoute,
    tickByGetRoute,
    metricsRoute,
    healthRoute,
    createReadyRoute(recognise),
  ]
}

function mount(app: Hono<HttpEnv>, route: Route, recognise: Recognise, dependencies: HttpDependencies): void {
  const path = mergePath(dependencies.basePath ?? '/', route.path.replaceAll(/\{(\w+)\}/g, ':$1'))
  if (route.access !== 'anyone') app.on(route.method, path, requireScope(route.access, recognise))
  app.on(route.method, path, (c) => route.handle(c, dependencies))
}
