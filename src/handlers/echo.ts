import { z } from 'zod'

import type { Json } from '../core/job.ts'
import { defineJob } from '../registry.ts'

/** Job type `test.echo`: returns its payload, any JSON value, as its result. For trials of a deployment. */
export const echo = defineJob({
  type: 'test.echo',
  // Not `z.json()`: that copies the value and loses a key called `__proto__`.
  payload: z.custom<Json>(),
  run: (payload) => payload,
})
