import { z } from 'zod'

import { DatabaseError, SQLSTATE } from '../../db/errors.ts'
import type { Sql } from '../../db/sql.ts'
import type { Registry } from '../../registry.ts'
import { enqueue, knownTypes, type Enqueued, type EnqueueInput } from '../../store/enqueue.ts'
import { readJson } from '../body.ts'
import { ENQUEUE_BODY } from '../enqueue-body.ts'
import { readEnqueue } from '../enqueue-request.ts'
import { HttpError } from '../errors.ts'
import { answerJson, jobSchema, jobText } from '../job.ts'
import type { Route } from '../route.ts'
import { waitUntilOf } from '../wait-until.ts'

/** `POST /jobs`: adds a job, or answers the one that already has its idempotency key. */
export const enqueueRoute: Route = {
  method: 'POST',
  path: '/jobs',
  access: 'enqueue',
  describe: () => ({
    summary: 'Enqueue a job',
    description: 'Safe to repeat with the same key: there is one job for it, for as long as its row is kept.',
    request: {
      headers: z.object({
        'Idempotency-Key': z
          .string()
          .optional()
          .meta({ description: 'In place of the field; ASCII, taken verbatim' }),
        traceparent: z.string().optional().meta({ description: 'W3C Trace Context, handed to the handler' }),
      }),
      body: {
        required: true,
        content: { 'application/json': { schema: ENQUEUE_BODY.partial({ idempotency_key: true }) } },
      },
    },
    answers: {
      201: { description: 'The job was created', schema: jobSchema() },
      200: {
        description: 'The key was known: its job, and `Idempotent-Replayed: true`',
        schema: jobSchema(),
      },
      400: 'invalid_json, invalid_request, or unknown_type',
      413: 'body_too_large or payload_too_large',
      415: 'unsupported_media_type',
      422: 'idempotency_key_reused: the key belongs to a job of another type or payload',
      503: 'key_busy: an open transaction holds the key; outcome_unknown: repeat with the same key',
    },
  }),
  async handle(c, { registry, onEnqueued }) {
    const headers = {
      idempotencyKey: c.req.header('Idempotency-Key'),
      traceparent: c.req.header('traceparent'),
    }
    const input = await readEnqueue(await readJson(c.req.raw), headers, registry)
    const enqueued = await tryEnqueue(c.get('sql'), input)
    switch (enqueued.outcome) {
      case 'created':
        if (isDue(enqueued.job)) onEnqueued?.(waitUntilOf(c))
        c.header('Location', `${c.req.path}/${enqueued.job.id}`)
        return answerJson(c, 201, jobText(enqueued.job))
      case 'replayed':
        c.header('Idempotent-Replayed', 'true')
        return answerJson(c, 200, jobText(enqueued.job))
      case 'reused':
        throw keyReused(enqueued.job.id)
      case 'unknown_type':
        throw await unknownType(c.get('sql'), registry, input.type)
    }
  },
}

async function tryEnqueue(sql: Sql, input: EnqueueInput): Promise<Enqueued> {
  try {
    return await enqueue(sql, input)
  } catch (error) {
    if (!(error instanceof DatabaseError)) throw error
    if (error.code === SQLSTATE.lockNotAvailable) {
      throw retryLater('key_busy', 'an open transaction holds the idempotency key, try again', error)
    }
    if (error.kind !== 'ambiguous') throw error
    const message =
      'the job may or may not have been stored: repeat the request with the same idempotency key'
    throw retryLater('outcome_unknown', message, error)
  }
}

function retryLater(code: string, message: string, cause: DatabaseError): HttpError {
  return new HttpError(503, code, message, { headers: { 'Retry-After': '1' }, cause })
}

function keyReused(id: string): HttpError {
  const message = `the idempotency key belongs to the job ${id}, which has another type or payload`
  return new HttpError(422, 'idempotency_key_reused', message)
}

async function unknownType(sql: Sql, registry: Registry, type: string): Promise<HttpError> {
  const known = new Set([...registry.keys(), ...(await knownTypes(sql))])
  const names = known.size === 0 ? 'none' : [...known].sort().join(', ')
  return new HttpError(400, 'unknown_type', `no root has registered the type ${type}; known types: ${names}`)
}

/** Both instants come from one reading of the database's clock, in a form that compares as text. */
function isDue({
  availableAt,
  createdAt,
}: {
  readonly availableAt: string
  readonly createdAt: string
}): boolean {
  return availableAt <= createdAt
}
