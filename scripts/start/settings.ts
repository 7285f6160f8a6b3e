import { resolve } from 'node:path'
import { z } from 'zod'

import { settingNames } from '../../src/config.ts'

/** What `npm start` itself is told, with its defaults. */
export type StartSettings = Readonly<z.output<typeof startSchema>>

const startSchema = z.object({
  PORT: whole(0, 65_535).default(8787),
  DATA_DIR: z
    .string()
    .default('.data')
    .transform((folder) => resolve(folder)),
  TICK_EVERY_MS: whole(10, 3_600_000).default(1_000),
  GRACE_MS: whole(0, 600_000).default(30_000),
  DATABASE_URL: z.string().optional(),
  TIDEGATE_ENV: z.string().default('local'),
})

/** A process environment. */
export type Environment = Readonly<Record<string, string | undefined>>

/** Reads the settings of `npm start`. An empty one counts as absent. Throws with every problem in one sentence. */
export function readStartSettings(env: Environment): StartSettings {
  const parsed = startSchema.safeParse(withoutEmpty(env))
  if (parsed.success) return parsed.data
  throw new Error(
    parsed.error.issues.map(({ path: [name], message }) => `${String(name)}: ${message}`).join('; '),
  )
}

/** The settings of the Worker that this environment has, and those that `WEBHOOKS` names in it. */
export function readWorkerSettings(env: Environment): Readonly<Record<string, string>> {
  const given = withoutEmpty(env)
  const named = (given['WEBHOOKS'] ?? '').matchAll(/"env"\s*:\s*"([A-Z][A-Z0-9_]*)"/g)
  const names = [...settingNames(), ...Array.from(named, ([, name = '']) => name)]
  return Object.fromEntries(names.flatMap((name) => (given[name] === undefined ? [] : [[name, given[name]]])))
}

function withoutEmpty(env: Environment): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] => Boolean(entry[1])),
  )
}

function whole(least: number, most: number) {
  return z.string().transform((text, context) => {
    const value = Number(text)
    if (/^\d+$/.test(text) && value >= least && value <= most) return value
    context.addIssue(`expected a whole number from ${least} to ${most}, got "${text}"`)
    return z.NEVER
  })
}
