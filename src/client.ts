import type { StandardSchemaV1 } from '@standard-schema/spec'

import type { Status } from './core/job.ts'
import type { Worker } from './create-worker.ts'
import { payloadText } from './payload.ts'
import type { AnyJob } from './registry.ts'
import { enqueueStatement, type Statement } from './store/enqueue.ts'

/** Settings of one enqueue. */
export interface EnqueueOptions {
  /** The idempotency key: the same key is the same job. */
  readonly key: string
  /** −100…100, higher first. Defaults to 0. */
  readonly priority?: number
  readonly delaySeconds?: number
  /** Takes the place of `delaySeconds`. */
  readonly availableAt?: Date
  /** Defaults to what the type has registered. */
  readonly maxAttempts?: number
}

/** What an enqueue over HTTP answers of its job. */
export interface Enqueued {
  readonly id: string
  readonly status: Status
  /** Whether the key was known, and this is the job that already had it. */
  readonly replayed: boolean
}

/** Enqueues the jobs of one Worker, by type and payload. */
export interface Client<Jobs extends readonly AnyJob[]> {
  /** Enqueues over HTTP. Safe to repeat with the same key. Rejects with {@link EnqueueError}. */
  enqueue<Type extends TypeOf<Jobs>>(
    type: Type,
    payload: PayloadOf<Jobs, Type>,
    options: EnqueueOptions,
  ): Promise<Enqueued>
  /** The same enqueue as a SQL statement, to run inside a transaction of your own. */
  statement<Type extends TypeOf<Jobs>>(
    type: Type,
    payload: PayloadOf<Jobs, Type>,
    options: EnqueueOptions,
  ): Statement
}

/** Where the Worker is, and a token of scope `enqueue`. */
export interface ClientOptions {
  readonly url: string
  readonly token: string
  readonly fetch?: typeof fetch
}

/** An enqueue that did not answer with a job. `code` is the API's, such as `idempotency_key_reused`. */
export class EnqueueError extends Error {
  override readonly name = 'EnqueueError'
  readonly status: number
  readonly code: string

  constructor(message: string, status: number, code: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

type JobsOf<W> = W extends Worker<infer Jobs> ? Jobs : never
type TypeOf<Jobs extends readonly AnyJob[]> = Jobs[number]['type']
type PayloadOf<Jobs extends readonly AnyJob[], Type> = StandardSchemaV1.InferInput<
  Extract<Jobs[number], { readonly type: Type }>['payload']
>

/**
 * Creates a client for a Worker. The Worker is imported as a type only, so none of its code is bundled.
 *
 * @example
 * import type worker from './worker.ts'
 * const jobs = createClient<typeof worker>({ url, token })
 * await jobs.enqueue('mail.welcome', { userId, email }, { key: `welcome:${userId}` })
 */
export function createClient<W extends Worker>(options: ClientOptions): Client<JobsOf<W>> {
  const send = options.fetch ?? ((input, init) => fetch(input, init))
  const url = new URL('jobs', options.url.endsWith('/') ? options.url : `${options.url}/`)
  return {
    async enqueue(type, payload, settings) {
      const response = await send(url, {
        method: 'POST',
        headers: { authorization: `Bearer ${options.token}`, 'content-type': 'application/json' },
        body: enqueueBody(type, payload, settings),
      })
      const answer = (await response.json()) as { id: string; status: Status; error?: string; code?: string }
      if (!response.ok)
        throw new EnqueueError(
          answer.error ?? 'the enqueue failed',
          response.status,
          answer.code ?? 'unknown',
        )
      return {
        id: answer.id,
        status: answer.status,
        replayed: response.headers.get('idempotent-replayed') === 'true',
      }
    },
    statement: (type, payload, settings) => statement(type, payload, settings),
  }
}

/** The enqueue of one job as a value: `{ text, params }`, whatever the caller holds runs it. */
export function statement(type: string, payload: unknown, options: EnqueueOptions): Statement {
  return enqueueStatement({
    type,
    payload: payloadText(payload),
    idempotencyKey: options.key,
    ...(options.priority === undefined ? {} : { priority: options.priority }),
    ...(options.delaySeconds === undefined ? {} : { delayMs: Math.round(options.delaySeconds * 1_000) }),
    ...(options.availableAt === undefined ? {} : { availableAt: options.availableAt.toISOString() }),
    ...(options.maxAttempts === undefined ? {} : { maxAttempts: options.maxAttempts }),
  })
}

function enqueueBody(type: string, payload: unknown, options: EnqueueOptions): string {
  return JSON.stringify({
    type,
    payload,
    idempotency_key: options.key,
    priority: options.priority,
    delay_seconds: options.delaySeconds,
    available_at: options.availableAt?.toISOString(),
    max_attempts: options.maxAttempts,
  })
}
