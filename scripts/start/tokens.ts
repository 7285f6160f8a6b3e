import { randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { z } from 'zod'

const scopes = ['enqueue', 'operator', 'cron'] as const
const tokensSchema = z.strictObject({ enqueue: z.string(), operator: z.string(), cron: z.string() })

/** One bearer token a scope. */
export type Tokens = Readonly<z.infer<typeof tokensSchema>>

/** The setting that holds each scope's tokens. */
const settings = { enqueue: 'ENQUEUE_TOKENS', operator: 'OPERATOR_TOKENS', cron: 'CRON_SECRET' } as const

/** A token for each scope that the environment gives none for, kept in a file. */
export async function makeTokens(
  env: Readonly<Record<string, string | undefined>>,
  file: string,
): Promise<Partial<Tokens>> {
  const missing = scopes.filter((scope) => !env[settings[scope]])
  if (missing.length === 0) return {}
  const kept = await keepTokens(file)
  return Object.fromEntries(missing.map((scope) => [scope, kept[scope]]))
}

/** The Worker's settings that let these tokens in. Its log calls who has them `local`. */
export function tokenSettings(tokens: Partial<Tokens>): Readonly<Record<string, string>> {
  const given = scopes.filter((scope) => tokens[scope] !== undefined)
  return Object.fromEntries(given.map((scope) => [settings[scope], `local:${tokens[scope]}`]))
}

// A missing file is filled with new ones, readable by its owner alone.
async function keepTokens(file: string): Promise<Tokens> {
  const content = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  if (content !== undefined) return readTokens(file, content)
  const tokens = { enqueue: createToken(), operator: createToken(), cron: createToken() }
  await writeFile(file, `${JSON.stringify(tokens, undefined, 2)}\n`, { mode: 0o600, flag: 'wx' })
  return tokens
}

function readTokens(file: string, content: string): Tokens {
  try {
    return tokensSchema.parse(JSON.parse(content))
  } catch (error) {
    throw new Error(`expected the tokens enqueue, operator and cron in ${file}: delete it for new ones`, {
      cause: error,
    })
  }
}

function createToken(): string {
  return randomBytes(24).toString('base64url')
}
