import { join } from 'node:path'

import { defineConfig } from 'vitest/config'

// Examples import the package by its name, as their users do.
const alias = { tidegate: join(import.meta.dirname, 'src', 'index.ts') }

const project = (name: string, extra: object = {}) => ({
  test: {
    alias,
    name,
    include: [`test/${name}/**/*.test.ts`],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    ...extra,
  },
})

const withPostgres = { globalSetup: ['test/support/postgres-setup.ts'] }

export default defineConfig({
  test: {
    projects: [
      project('core'),
      project('store', {
        globalSetup: [...withPostgres.globalSetup, 'test/support/drivers-setup.ts'],
      }),
      project('tick', withPostgres),
      project('http', withPostgres),
      project('worker', { ...withPostgres, testTimeout: 90_000, hookTimeout: 120_000 }),
    ],
  },
})
