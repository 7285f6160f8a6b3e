import { afterEach, beforeEach, expect, it } from 'vitest'

import { openPg } from '../../src/db/pg.ts'
import type { Database } from '../../src/db/sql.ts'
import { startReceiver, type Receiver } from '../support/webhook-receiver.ts'
import { job, openRoot, settings, type Root } from '../support/tick.ts'

let root: Root
let outside: Receiver
beforeEach(async () => {
  root = await openRoot()
  outside = await startReceiver((response) => response.end('ok'))
})
afterEach(async () => {
  await outside[Symbol.asyncDispose]()
  await root.close()
})

it('never has more than the six connections open that a Worker has', async () => {
  let open = 0
  let most = 0
  const opened = () => {
    open += 1
    most = Math.max(most, open)
  }
  const counted = (database: Database): Database => {
    let isOpen = false
    return {
      ...database,
      sql(text, params) {
        if (!isOpen) opened()
        isOpen = true
        return database.sql(text, params)
      },
      async close() {
        await database.close()
        if (isOpen) open -= 1
        isOpen = false
      },
    }
  }
  const counting: typeof fetch = async (...request) => {
    opened()
    try {
      const response = await fetch(...request)
      await response.clone().text()
      return response
    } finally {
      open -= 1
    }
  }
  for (let n = 0; n < 40; n += 1) await root.put('t')
  const busy = job(async (_payload, context) => {
    await context.sql('select 1', [])
    await (await context.fetch(outside.origin)).text()
  })
  const report = await root.tick(
    [busy],
    {},
    {
      settings: { ...settings, concurrency: 4, batch: 4 },
      openDatabase: () => counted(openPg({ url: root.db.url })),
      fetch: counting,
      push: async () => {
        opened()
        await (await fetch(outside.origin)).text()
        open -= 1
        return null
      },
    },
  )
  expect(report).toMatchObject({ completed: 40, stopped: 'empty' })
  expect(most).toBeGreaterThan(4)
  expect(most).toBeLessThanOrEqual(6)
  expect(open).toBe(0)
})
