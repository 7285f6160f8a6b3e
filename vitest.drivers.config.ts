import { defineConfig } from 'vitest/config'

import { driverTable } from './test/support/driver-table.ts'

/** The store's tests over every driver, and a table of what each has passed: `npm run test:drivers`. */
export default defineConfig({
  test: {
    name: 'drivers',
    include: ['test/store/**/*.test.ts'],
    globalSetup: ['test/support/postgres-setup.ts', 'test/support/matrix-setup.ts'],
    testTimeout: 30_000,
    hookTimeout: 120_000,
    maxWorkers: 2,
    reporters: ['default', driverTable()],
  },
})
