import { describe, expect, it } from 'vitest'

import { readConfig } from '../../src/config.ts'

const least = { DATABASE_URL: 'postgres://u:p@localhost/db', OPERATOR_TOKENS: 'ann:0123456789abcdef' }

describe('readConfig', () => {
  it('has a default for everything but the database and a token', () => {
    const { config } = readConfig(least, 'workers')
    expect(config).toMatchObject({
      environment: 'production',
      tickWindowMs: 50_000,
      tickHttpWindowMs: 25_000,
      tickMaxJobs: 0,
      tick: { concurrency: 4, batch: 4, reserveMs: 5_000, leaseMarginMs: 10_000 },
      jobs: { timeoutMs: 10_000, maxAttempts: 5, windowMs: 50_000 },
      push: undefined,
      logLevel: 'info',
    })
    expect(readConfig(least, 'node').config?.tick).toMatchObject({ concurrency: 10, batch: 10 })
  })

  it('names every problem at once', () => {
    const { problems } = readConfig(
      { TICK_WINDOW_MS: 'soon', LOG_LEVEL: 'loud', BACKOFF_FACTOR: '0' },
      'workers',
    )
    expect(problems).toEqual([
      'DATABASE_URL: expected a postgres:// URL, or a Hyperdrive binding HYPERDRIVE',
      'OPERATOR_TOKENS: expected at least one token',
      'TICK_WINDOW_MS: expected a whole number from 1000 to 900000, got "soon"',
      'BACKOFF_FACTOR: expected a number from 1 to 100, got "0"',
      'LOG_LEVEL: expected one of debug, info, warn, error, silent, got "loud"',
    ])
  })

  it('never shows a secret', () => {
    const secret = 'mysql://user:hunter2hunter2@host'
    const { problems } = readConfig(
      { DATABASE_URL: secret, OPERATOR_TOKENS: 'short', PUSHGATEWAY_URL: 'ftp://hunter2' },
      'workers',
    )
    expect(problems).toHaveLength(3)
    expect(problems?.join()).not.toMatch(/hunter2|short,|got "short"/)
  })

  it('refuses secrets that no header could carry', () => {
    const { problems } = readConfig(
      { ...least, CRON_SECRET: 'has a space in it, and:schön-und-lang-genug' },
      'workers',
    )
    expect(problems).toHaveLength(2)
  })

  it('reads tokens by name, or names them by their position', () => {
    const { config } = readConfig(
      {
        ...least,
        ENQUEUE_TOKENS: ' web:aaaaaaaaaaaaaaaa , bbbbbbbbbbbbbbbb',
        CRON_SECRET: 'cccccccccccccccc',
      },
      'workers',
    )
    expect(config?.tokens).toEqual({
      operator: [{ name: 'ann', secret: '0123456789abcdef' }],
      enqueue: [
        { name: 'web', secret: 'aaaaaaaaaaaaaaaa' },
        { name: '#2', secret: 'bbbbbbbbbbbbbbbb' },
      ],
      cron: [{ name: '#1', secret: 'cccccccccccccccc' }],
    })
  })

  it('prefers the Hyperdrive binding, and keeps rows for ever when told never', () => {
    const { config } = readConfig(
      { ...least, HYPERDRIVE: { connectionString: 'postgres://h@local/db' }, RETAIN_DEAD_SECONDS: 'never' },
      'workers',
    )
    expect(config?.database).toEqual({ driver: 'pg', url: 'postgres://h@local/db' })
    expect(config?.tick.retention.deadSeconds).toBeNull()
  })

  it.each([
    ['pg', {}],
    ['neon', { DATABASE_URL: 'postgres://u:p@ep-a-1.eu-central-1.aws.neon.tech/db' }],
    ['pg', { DATABASE_URL: 'postgres://u:p@neon.tech.example.com/db' }],
    ['pg', { DATABASE_URL: 'postgres://u:p@ep-a-1.neon.tech/db', DATABASE_DRIVER: 'pg' }],
    ['neon', { DATABASE_DRIVER: 'neon' }],
    ['neon', { DATABASE_DRIVER: 'neon', NEON_ENDPOINT: 'http://localhost:4444/sql' }],
    [
      'pg',
      {
        DATABASE_URL: 'postgres://u:p@ep-a-1.neon.tech/db',
        HYPERDRIVE: { connectionString: 'postgres://h@local/db' },
      },
    ],
  ])('takes the driver %s with %o', (driver, given) => {
    expect(readConfig({ ...least, ...given }, 'workers').config?.database.driver).toBe(driver)
  })

  it.each([
    ['DATABASE_DRIVER: expected auto, pg or neon', { DATABASE_DRIVER: 'tcp' }],
    ['NEON_ENDPOINT: expected an http or https URL', { NEON_ENDPOINT: 'hunter2' }],
    ['NEON_ENDPOINT: expected the driver neon with it, got pg', { NEON_ENDPOINT: 'http://localhost/sql' }],
    [
      'DATABASE_DRIVER: expected pg or auto with a Hyperdrive binding, got neon',
      { DATABASE_DRIVER: 'neon', HYPERDRIVE: { connectionString: 'postgres://h@local/db' } },
    ],
    [
      'DATABASE_URL: expected postgres://user:password@host/database for the driver neon',
      { DATABASE_DRIVER: 'neon', DATABASE_URL: 'postgres://u:hunter2@%2Ftmp/db' },
    ],
  ])('says "%s"', (problem, given) => {
    const { problems } = readConfig({ ...least, ...given }, 'workers')
    expect(problems).toEqual([expect.stringContaining(problem)])
    expect(problems?.join()).not.toContain('hunter2')
  })

  it('refuses a window that has no room beside its reserve', () => {
    const { problems } = readConfig({ ...least, TICK_HTTP_WINDOW_MS: '4000' }, 'workers')
    expect(problems).toEqual([
      'TICK_HTTP_WINDOW_MS: expected more than the 5000 ms kept for settling, got 4000',
    ])
  })

  it('refuses credentials in the URL of the gateway, where an error could show them', () => {
    const { problems } = readConfig(
      { ...least, PUSHGATEWAY_URL: 'http://user:hunter2@gateway:9091' },
      'workers',
    )
    expect(problems).toHaveLength(1)
    expect(problems?.[0]).toMatch(/^PUSHGATEWAY_URL: .*PUSHGATEWAY_AUTHORIZATION/)
    expect(problems?.[0]).not.toContain('hunter2')
  })

  it('takes an empty setting for an absent one', () => {
    expect(readConfig({ ...least, PUSHGATEWAY_URL: '', TICK_BATCH: '' }, 'workers').problems).toBeUndefined()
  })
})
