import { expect, test } from 'vitest'

import { createUnconfiguredApp } from '../../src/http/not-configured.ts'
import { createLogger } from '../../src/log.ts'
import { json } from '../support/api.ts'

const problems = ['DATABASE_URL: expected a URL, got nothing', 'OPERATOR_TOKENS: expected at least one token']

test.each([
  ['POST', '/jobs'],
  ['GET', '/readyz'],
  ['GET', '/'],
  ['GET', '/openapi.json'],
  ['POST', '/healthz'],
])('%s %s is not configured and names the settings', async (method, path) => {
  const app = createUnconfiguredApp(problems, createLogger('silent'))
  const response = await app.request(path, { method })
  expect(response.status).toBe(503)
  expect(response.headers.get('Cache-Control')).toBe('no-store')
  expect(response.headers.get('X-Request-Id')).not.toBeNull()
  expect(await json(response)).toEqual({
    code: 'not_configured',
    error: `not configured: ${problems.join('; ')}`,
  })
})

test.each(['/healthz', '/queue/healthz'])('%s is alive nevertheless', async (path) => {
  const app = createUnconfiguredApp(problems, createLogger('silent'))
  const response = await app.request(path)
  expect(response.status).toBe(200)
  expect(await json(response)).toEqual({ status: 'ok' })
})

test('the log says it once, and not again for every request', async () => {
  const lines: string[] = []
  const app = createUnconfiguredApp(
    problems,
    createLogger('info', (line) => lines.push(line)),
  )
  await app.request('/jobs')
  await app.request('/jobs')
  expect(lines).toHaveLength(1)
  expect(lines[0]).toContain('OPERATOR_TOKENS')
})
