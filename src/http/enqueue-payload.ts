import type { StandardSchemaV1 } from '@standard-schema/spec'

import { InvalidInput, payloadText, storabilityIssues, type Issue } from '../payload.ts'
import type { RegisteredJob } from '../registry.ts'
import { HttpError } from './errors.ts'
import { dotted } from './input.ts'

/** A payload as it is stored; without issues it may be. */
export interface ReadPayload {
  readonly text: string
  readonly issues: readonly Issue[]
}

/**
 * Reads a payload: whether it can be stored, and whether the schema of its type accepts it. One that is
 * absent or null is for the body's schema to refuse. Throws a 413 when it is over its limit.
 */
export async function readPayload(payload: unknown, job: RegisteredJob | undefined): Promise<ReadPayload> {
  if (payload === undefined || payload === null) return { text: '', issues: [] }
  const issues = storabilityIssues(payload, 'payload')
  if (issues.length > 0) return { text: '', issues }
  // The text before the schema, which may change its input.
  const text = sizedText(payload)
  return { text, issues: job === undefined ? [] : await schemaIssues(job, payload) }
}

function sizedText(storable: unknown): string {
  try {
    return payloadText(storable)
  } catch (error) {
    // It can be stored, so what there is to refuse is its size.
    if (error instanceof InvalidInput) throw new HttpError(413, 'payload_too_large', error.message)
    throw error
  }
}

/** The most issues of one payload that an answer lists, for each of its values can be one. */
const MOST_ISSUES = 100

async function schemaIssues(job: RegisteredJob, payload: unknown): Promise<readonly Issue[]> {
  const { issues = [] } = await validate(job, payload)
  return issues.slice(0, MOST_ISSUES).map(({ message, path = [] }) => {
    const keys = path.map((segment) => (typeof segment === 'object' ? segment.key : segment))
    return { path: dotted(['payload', ...keys]), message }
  })
}

/** A schema is the user's code, and may throw anything. */
async function validate(job: RegisteredJob, payload: unknown): Promise<StandardSchemaV1.Result<unknown>> {
  try {
    return await job.payload['~standard'].validate(payload)
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : 'no error'
    throw new Error(`the schema of the job type ${job.type} threw: ${reason}`, { cause })
  }
}
