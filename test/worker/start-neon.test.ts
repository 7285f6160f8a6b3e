import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, inject, it } from 'vitest'

import { createEmptyDatabase } from '../support/database.ts'
import { startNeonEndpoint } from '../support/neon-endpoint.ts'
import { runStart } from '../support/start.ts'

const operator = 'operator-secret-of-tests'

it('npm start migrates over TCP and runs everything else over the Neon endpoint that it is given', async () => {
  const db = await createEmptyDatabase()
  await using endpoint = await startNeonEndpoint({ server: inject('postgres').url })
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-start-'))
  const start = runStart({
    DATA_DIR: folder,
    PORT: '0',
    TICK_EVERY_MS: '100',
    DATABASE_URL: db.url,
    DATABASE_DRIVER: 'neon',
    NEON_ENDPOINT: endpoint.url,
    OPERATOR_TOKENS: operator,
  })
  try {
    const url = /http:\S+/.exec(await start.line(/tidegate is ready/))?.[0] ?? ''
    const response = await fetch(`${url}/jobs`, {
      method: 'POST',
      headers: { authorization: `Bearer ${operator}`, 'content-type': 'application/json' },
      body: JSON.stringify({ type: 'test.echo', payload: { n: 1 }, idempotency_key: 'first' }),
    })
    expect(response.status).toBe(201)
    const { id } = (await response.json()) as { id: string }
    await start.line(new RegExp(`(?=.*"job completed").*${id}`))
    expect(endpoint.requests.some(({ body }) => body.includes('tidegate.enqueue'))).toBe(true)
    expect(endpoint.requests.some(({ body }) => body.includes('tidegate.work'))).toBe(true)
  } finally {
    start.kill('SIGINT')
    await start.exited
    await rm(folder, { recursive: true, force: true })
    await db.close()
  }
})
