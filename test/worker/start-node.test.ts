import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { expect, it } from 'vitest'

import { createDatabase } from '../support/database.ts'
import { startReceiver } from '../support/webhook-receiver.ts'

const operator = 'operator-secret-of-tests'

it('npm run start:node drains at a real SIGTERM: what runs is completed, what waits is left, exit 0', async () => {
  const db = await createDatabase()
  const held: ServerResponse[] = []
  await using receiver = await startReceiver((response) => void held.push(response))
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-start-node-'))
  const child = spawn(process.execPath, [join(import.meta.dirname, '..', '..', 'scripts', 'start-node.ts')], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      ...process.env,
      DATABASE_URL: db.url,
      DATA_DIR: folder,
      PORT: '0',
      TIDEGATE_ENV: 'test',
      OPERATOR_TOKENS: operator,
      KICK: 'off',
      TICK_EVERY_MS: '50',
      WEBHOOKS: JSON.stringify({ slow: { url: receiver.origin } }),
    },
  })
  const exited = once(child, 'exit')
  let printed = ''
  child.stdout.on('data', (chunk: Buffer) => (printed += chunk.toString()))
  try {
    await expect.poll(() => printed, { timeout: 30_000 }).toContain('is ready')
    await db.query("select tidegate.enqueue('slow', '{}', 'first')")
    await expect.poll(() => held.length, { timeout: 30_000 }).toBe(1)
    child.kill('SIGTERM')
    await expect.poll(() => printed, { timeout: 30_000 }).toContain('draining')
    await db.query("select tidegate.enqueue('slow', '{}', 'second')")
    held[0]?.writeHead(204).end()
    await expect(exited).resolves.toEqual([0, null])
    await expect(db.query('select status from tidegate.jobs order by created_at')).resolves.toEqual([
      { status: 'completed' },
      { status: 'pending' },
    ])
  } finally {
    child.kill('SIGKILL')
    await exited
    await rm(folder, { recursive: true, force: true })
    await db.close()
  }
})
