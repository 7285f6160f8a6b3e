import { defineConfig } from 'vitest/config'

const project = (name: string, extra: object = {}) => ({
  test: {
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
      project('store', withPostgres),
      project('tick', withPostgres),
      project('http', withPostgres),
      project('worker', { ...withPostgres, testTimeout: 90_000, hookTimeout: 120_000 }),
    ],
  },
})
