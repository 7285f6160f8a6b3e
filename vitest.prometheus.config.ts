import { defineConfig } from 'vitest/config'

/** Metrics from Postgres to a real Pushgateway and a real Prometheus: `npm run test:prometheus`. */
export default defineConfig({
  test: {
    name: 'prometheus',
    include: ['test/prometheus/**/*.test.ts'],
    globalSetup: ['test/support/postgres-setup.ts', 'test/prometheus/programs-setup.ts'],
    testTimeout: 60_000,
    hookTimeout: 120_000,
  },
})
