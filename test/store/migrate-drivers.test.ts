import { describe, expect, it } from 'vitest'

import { migrate } from '../../src/migrate.ts'
import { createEmptyDatabase } from '../support/database.ts'
import { drivers } from '../support/store.ts'

describe.each(drivers)('migrate over $name', ({ server, tcpUrl }) => {
  it('brings an empty database up to date, and finds nothing to do the second time', async (test) => {
    if (tcpUrl === undefined) return test.skip('migrations need a transaction, so they go over TCP from Node')
    const db = await createEmptyDatabase(server)
    try {
      const options = { url: tcpUrl(db.url), environment: 'test' }
      const { applied } = await migrate(options)
      expect(applied.length).toBeGreaterThan(0)
      await expect(migrate(options)).resolves.toEqual({ applied: [], newer: [] })
    } finally {
      await db.close()
    }
  })
})
