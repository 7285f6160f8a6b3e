// AWS Lambda behind a function URL or an API Gateway, with an EventBridge schedule that calls GET /tick.
import { handle } from 'hono/aws-lambda'
import { createRoot } from 'tidegate'

const root = createRoot({ jobs: [], env: process.env })

export const handler = handle({ fetch: root.fetch } as Parameters<typeof handle>[0])
