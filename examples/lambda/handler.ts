// AWS Lambda behind a function URL or an API Gateway, with an EventBridge schedule that calls GET /tick.
import { Hono } from 'hono'
import { handle } from 'hono/aws-lambda'
import { createRoot } from 'tidegate'

const root = createRoot({ jobs: [], env: process.env })
const app = new Hono().all('*', (c) => root.fetch(c.req.raw))

export const handler = handle(app)
