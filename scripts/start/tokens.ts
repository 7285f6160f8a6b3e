import { randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { z } from 'zod'

const tokensSchema = z.strictObject({ enqueue: z.string(), operator: z.string(), cron: z.string() })

/** One bearer token a scope. */
export type Tokens = Readonly<z.infer<typeof tokensSchema>>

/** The tokens kept in a file. A missing file is filled with new ones, readable by its owner alone. */
export async function keepTokens(file: string): Promise<Tokens> {
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
