import { z } from 'zod'

import type { Backoff } from './core/backoff.ts'
import { LIMITS } from './core/job.ts'
import { chooseDatabase, databaseProblems } from './db/choose.ts'
import type { DatabaseConfig } from './db/open.ts'
import type { NamedSecret, Tokens } from './http/auth.ts'
import { LOG_LEVELS, type LogLevel } from './log.ts'
import type { PushOptions } from './push.ts'
import type { RegistryDefaults } from './registry.ts'
import { TICK_SETTINGS, type TickSettings } from './tick-options.ts'

/** Everything that a root is told, checked and with its defaults. */
export interface Config {
  readonly database: DatabaseConfig
  readonly environment: string
  readonly tokens: Tokens
  /** The window of a scheduled tick, and of one over HTTP. */
  readonly tickWindowMs: number
  readonly tickHttpWindowMs: number
  readonly tickMaxJobs: number
  /** How often a scheduled tick that finds nothing looks again until its window is used up; undefined: it ends. */
  readonly tickLingerMs: number | undefined
  /** Whether an enqueue of a due job starts a small tick. */
  readonly kick: boolean
  readonly tick: TickSettings
  readonly jobs: RegistryDefaults
  readonly push: PushOptions | undefined
  /** The setting WEBHOOKS as it stands. */
  readonly webhooks: string | undefined
  readonly logLevel: LogLevel
}

/** The configuration, or every problem with it: the setting, what was expected, and never a secret's value. */
export type ConfigResult =
  | { readonly config: Config; readonly problems?: undefined }
  | { readonly config?: undefined; readonly problems: readonly string[] }

/** Where the root runs: a Worker has six connections, so four runs at a time. */
export type Runtime = 'workers' | 'node'

/** Reads the settings from a root's environment. An empty setting counts as absent. */
export function readConfig(env: Readonly<Record<string, unknown>>, runtime: Runtime): ConfigResult {
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ''))
  const parsed = settings(runtime).safeParse(given)
  const problems = [
    ...missing(given),
    ...(parsed.success
      ? [...databaseProblems(parsed.data), ...tooNarrow(parsed.data)]
      : parsed.error.issues.map((issue) => problem(issue, given))),
  ]
  return parsed.success && problems.length === 0 ? { config: toConfig(parsed.data) } : { problems }
}

function missing(given: Readonly<Record<string, unknown>>): readonly string[] {
  const problems: string[] = []
  if (given['DATABASE_URL'] === undefined && given['HYPERDRIVE'] === undefined) {
    problems.push('DATABASE_URL: expected a postgres:// URL, or a Hyperdrive binding HYPERDRIVE')
  }
  if (given['OPERATOR_TOKENS'] === undefined) problems.push('OPERATOR_TOKENS: expected at least one token')
  return problems
}

function tooNarrow(value: Settings): readonly string[] {
  const reserveMs = reserve(value)
  return (['TICK_WINDOW_MS', 'TICK_HTTP_WINDOW_MS'] as const)
    .filter((name) => value[name] <= reserveMs)
    .map((name) => `${name}: expected more than the ${reserveMs} ms kept for settling, got ${value[name]}`)
}

/** The names of all settings that are text; bindings are not. */
export function settingNames(): readonly string[] {
  return Object.keys(settings('workers').shape).filter((name) => name !== 'HYPERDRIVE')
}

const SECRET_SETTINGS = /URL|TOKENS|SECRET|AUTHORIZATION|WEBHOOKS|HYPERDRIVE|ENDPOINT/

function problem(issue: z.core.$ZodIssue, given: Readonly<Record<string, unknown>>): string {
  const name = String(issue.path[0] ?? 'settings')
  const value = given[name]
  if (value === undefined) return `${name}: ${issue.message}`
  return `${name}: ${issue.message}, got ${SECRET_SETTINGS.test(name) ? 'something else' : JSON.stringify(value)}`
}

function settings(runtime: Runtime) {
  return z.object({
    DATABASE_URL: databaseUrl.optional(),
    HYPERDRIVE: z.object({ connectionString: databaseUrl }).optional(),
    DATABASE_DRIVER: z.enum(['auto', 'pg', 'neon'], { error: 'expected auto, pg or neon' }).default('auto'),
    NEON_ENDPOINT: z.url({ protocol: /^https?$/, error: 'expected an http or https URL' }).optional(),
    TIDEGATE_ENV: z.string().max(64, 'expected at most 64 characters').default('production'),
    ENQUEUE_TOKENS: secrets.default([]),
    OPERATOR_TOKENS: secrets.default([]),
    CRON_SECRET: secrets.default([]),
    TICK_WINDOW_MS: whole(1_000, 900_000).default(50_000),
    TICK_HTTP_WINDOW_MS: whole(1_000, 900_000).default(25_000),
    TICK_MAX_JOBS: whole(0, 1_000_000).default(0),
    TICK_MAX_SUBREQUESTS: whole(10, 1_000_000).optional(),
    TICK_CONCURRENCY: whole(1, 1_000).default(runtime === 'workers' ? 4 : 10),
    TICK_BATCH: whole(1, 1_000).optional(),
    SETTLE_RESERVE_MS: whole(500, 60_000).optional(),
    LEASE_MARGIN_MS: whole(1_000, 600_000).default(TICK_SETTINGS.leaseMarginMs),
    TICK_LINGER_MS: whole(100, 60_000).optional(),
    KICK: z.enum(['on', 'off'], { error: 'expected on or off' }).default('on'),
    DEFAULT_TIMEOUT_MS: whole(100, 900_000).default(10_000),
    BASE_BACKOFF_MS: whole(1, 86_400_000).default(15_000),
    BACKOFF_FACTOR: number(1, 100).default(4),
    MAX_BACKOFF_MS: whole(1_000, 86_400_000).default(3_600_000),
    DEFAULT_MAX_ATTEMPTS: whole(1, LIMITS.maxAttempts).default(5),
    PUSHGATEWAY_URL: z
      .url({ protocol: /^https?$/, error: 'expected an http or https URL' })
      // fetch refuses such a URL, and quotes it in its error.
      .refine((url) => !URL.canParse(url) || new URL(url).username + new URL(url).password === '', {
        error: 'expected a URL without user and password (PUSHGATEWAY_AUTHORIZATION takes them)',
      })
      .optional(),
    PUSHGATEWAY_AUTHORIZATION: z.string().optional(),
    PUSH_TIMEOUT_MS: whole(100, 30_000).default(3_000),
    METRICS_INSTANCE: z.string().optional(),
    RETAIN_COMPLETED_SECONDS: retention.default(604_800),
    RETAIN_CANCELLED_SECONDS: retention.default(604_800),
    RETAIN_DEAD_SECONDS: retention.default(7_776_000),
    WEBHOOKS: z.string().optional(),
    LOG_LEVEL: z.enum(LOG_LEVELS, { error: `expected one of ${LOG_LEVELS.join(', ')}` }).default('info'),
  })
}

type Settings = z.output<ReturnType<typeof settings>>

function toConfig(value: Settings): Config {
  const reserveMs = reserve(value)
  const backoff: Backoff = {
    baseMs: value.BASE_BACKOFF_MS,
    factor: value.BACKOFF_FACTOR,
    maxMs: value.MAX_BACKOFF_MS,
  }
  return {
    database: chooseDatabase(value),
    environment: value.TIDEGATE_ENV,
    tokens: { enqueue: value.ENQUEUE_TOKENS, operator: value.OPERATOR_TOKENS, cron: value.CRON_SECRET },
    tickWindowMs: value.TICK_WINDOW_MS,
    tickHttpWindowMs: value.TICK_HTTP_WINDOW_MS,
    tickMaxJobs: value.TICK_MAX_JOBS,
    tickLingerMs: value.TICK_LINGER_MS,
    kick: value.KICK === 'on',
    tick: {
      concurrency: value.TICK_CONCURRENCY,
      batch: value.TICK_BATCH ?? value.TICK_CONCURRENCY,
      reserveMs,
      leaseMarginMs: value.LEASE_MARGIN_MS,
      claimBytes: TICK_SETTINGS.claimBytes,
      backoff,
      retention: {
        completedSeconds: value.RETAIN_COMPLETED_SECONDS,
        cancelledSeconds: value.RETAIN_CANCELLED_SECONDS,
        deadSeconds: value.RETAIN_DEAD_SECONDS,
      },
      pushLeaseMs: 10 * value.PUSH_TIMEOUT_MS,
      maxSubrequests: value.TICK_MAX_SUBREQUESTS,
    },
    jobs: {
      timeoutMs: value.DEFAULT_TIMEOUT_MS,
      maxAttempts: value.DEFAULT_MAX_ATTEMPTS,
      backoff,
      windowMs: Math.max(value.TICK_WINDOW_MS, value.TICK_HTTP_WINDOW_MS),
      reserveMs,
    },
    push:
      value.PUSHGATEWAY_URL === undefined
        ? undefined
        : {
            url: value.PUSHGATEWAY_URL,
            instance: value.METRICS_INSTANCE ?? value.TIDEGATE_ENV,
            timeoutMs: value.PUSH_TIMEOUT_MS,
            ...(value.PUSHGATEWAY_AUTHORIZATION === undefined
              ? {}
              : { authorization: value.PUSHGATEWAY_AUTHORIZATION }),
          },
    webhooks: value.WEBHOOKS,
    logLevel: value.LOG_LEVEL,
  }
}

function reserve(value: Pick<Settings, 'SETTLE_RESERVE_MS' | 'PUSH_TIMEOUT_MS'>): number {
  return value.SETTLE_RESERVE_MS ?? value.PUSH_TIMEOUT_MS + 2_000
}

const databaseUrl = z.url({ protocol: /^postgres(ql)?$/, error: 'expected a postgres:// URL' })

/** Settings are texts; a runtime that has typed variables may hand over a number. */
function number(least: number, most: number) {
  const message = `expected a number from ${least} to ${most}`
  return z
    .union(
      [
        z.number(),
        z
          .string()
          .regex(/^-?\d+(\.\d+)?$/, message)
          .transform(Number),
      ],
      { error: message },
    )
    .refine((value) => value >= least && value <= most, message)
}

function whole(least: number, most: number) {
  const message = `expected a whole number from ${least} to ${most}`
  return z
    .union(
      [
        z.number(),
        z
          .string()
          .regex(/^-?\d+$/, message)
          .transform(Number),
      ],
      { error: message },
    )
    .refine((value) => Number.isInteger(value) && value >= least && value <= most, message)
}

const retention = z.union([z.literal('never').transform(() => null), whole(0, 3_153_600_000)], {
  error: "expected a number of seconds, or 'never'",
})

const SHORTEST_SECRET = 16

/** `name:secret, secret, …`; a bare secret is named by its position. */
const secrets = z.string().transform((text, context): readonly NamedSecret[] =>
  text
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')
    .map((entry, index) => {
      const [, name, secret] = /^([A-Za-z0-9_.-]{1,64}):(.+)$/.exec(entry) ?? [
        undefined,
        `#${index + 1}`,
        entry,
      ]
      if (secret === undefined || secret.length < SHORTEST_SECRET || !/^[!-~]+$/.test(secret)) {
        const expectation = `${SHORTEST_SECRET} or more visible ASCII characters without spaces`
        context.addIssue({
          code: 'custom',
          message: `expected secrets of ${expectation} (not so entry ${name})`,
        })
      }
      return { name: name ?? '', secret: secret ?? '' }
    }),
)
