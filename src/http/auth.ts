import type { MiddlewareHandler } from 'hono'

import { HttpError } from './errors.ts'
import type { HttpEnv } from './request.ts'

/** A secret and the name under which logs and histories know its holder. */
export interface NamedSecret {
  readonly name: string
  readonly secret: string
}

/** The bearer tokens of a root, by scope. More than one of a scope is for rotation. */
export interface Tokens {
  readonly enqueue: readonly NamedSecret[]
  /** May do all. */
  readonly operator: readonly NamedSecret[]
  /** May tick. */
  readonly cron: readonly NamedSecret[]
}

/** What a token is good for. */
export type Scope = keyof Tokens

/** Whose token came with a request. */
export interface Caller {
  readonly name: string
  readonly scope: Scope
}

/** Finds whose token an `Authorization` header carries: nobody's, or one entry for each scope that has it. */
export type Recognise = (authorization: string | undefined) => Promise<readonly Caller[]>

/**
 * Recognises these tokens. Secrets are compared by their SHA-256, every one of them and all their bytes,
 * so that the time it takes says nothing about any of them.
 */
export function createRecognise(tokens: Tokens): Recognise {
  // Digests, not promises of them: a promise of another request never settles in workerd.
  let known: readonly KnownToken[] | undefined
  return async (authorization) => {
    const token = /^bearer +(\S+)$/i.exec(authorization ?? '')?.[1]
    if (token === undefined) return []
    known ??= await digestAll(tokens)
    const digest = await sha256(token)
    return known.filter((candidate) => isEqual(candidate.digest, digest))
  }
}

/** Lets a request pass that carries a token of this scope, or an operator's: else 401, or 403 when its scope is another. */
export function requireScope(scope: Scope, recognise: Recognise): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    const authorization = c.req.header('Authorization')
    const callers = await recognise(authorization)
    const caller = callers.find((caller) => caller.scope === scope || caller.scope === 'operator')
    if (caller === undefined) throw refusal(scope, callers, authorization)
    c.set('caller', { name: caller.name, scope: caller.scope })
    c.set('log', c.get('log').with({ token: caller.name }))
    await next()
  }
}

function refusal(scope: Scope, callers: readonly Caller[], authorization: string | undefined): HttpError {
  const [other] = callers
  if (other !== undefined) {
    return new HttpError(
      403,
      'forbidden',
      `expected a token of scope ${scope}, got one of scope ${other.scope}`,
    )
  }
  const got = authorization === undefined ? 'none' : 'one that is not known'
  return new HttpError(401, 'unauthorized', `expected a bearer token of scope ${scope}, got ${got}`, {
    headers: { 'WWW-Authenticate': 'Bearer' },
  })
}

interface KnownToken extends Caller {
  readonly digest: Uint8Array
}

async function digestAll(tokens: Tokens): Promise<readonly KnownToken[]> {
  const all = (['enqueue', 'operator', 'cron'] as const).flatMap((scope) =>
    tokens[scope].map(({ name, secret }) => ({ name, scope, secret })),
  )
  return Promise.all(
    all.map(async ({ name, scope, secret }) => ({ name, scope, digest: await sha256(secret) })),
  )
}

async function sha256(text: string): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)))
}

// Our own loop, for `timingSafeEqual` exists only in workerd.
function isEqual(one: Uint8Array, other: Uint8Array): boolean {
  let difference = one.length ^ other.length
  for (const [i, byte] of one.entries()) difference |= byte ^ (other[i] ?? 0)
  return difference === 0
}
