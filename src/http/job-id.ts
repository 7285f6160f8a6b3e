import { z } from 'zod'

import { HttpError } from './errors.ts'
import type { HttpContext } from './request.ts'

/** The path parameter of the routes of one job. */
export function jobIdParams(): z.ZodObject {
  return z.object({ id: z.guid() })
}

/** The id in the path. Throws a 400 when it is no UUID. */
export function readJobId(c: HttpContext): string {
  const id = c.req.param('id') ?? ''
  if (!/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(id)) {
    throw new HttpError(400, 'invalid_id', `expected the id of a job, a UUID, got ${JSON.stringify(id)}`)
  }
  return id
}

/** There is no job with this id. */
export function jobNotFound(id: string): HttpError {
  return new HttpError(404, 'job_not_found', `no job has the id ${id}`)
}
