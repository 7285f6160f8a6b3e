import { z } from 'zod'

import { InvalidInput, type Issue } from '../payload.ts'

/** The message of a schema: what was expected, and what came. */
export function expected(what: string): (issue: { readonly input?: unknown }) => string {
  return ({ input }) => `expected ${what}, got ${shown(input)}`
}

/** A whole number within bounds. */
export function integer(least: number, most: number): z.ZodInt {
  const error = expected(`an integer from ${least} to ${most}`)
  return z.int({ error }).min(least, { error }).max(most, { error })
}

/** A JSON object of these fields; any other is an issue of its own name. */
export function fields<Shape extends z.core.$ZodLooseShape>(shape: Shape) {
  const error = expected('a JSON object')
  return z.strictObject(shape, {
    error: (issue) => (issue.code === 'invalid_type' ? error(issue) : undefined),
  })
}

/** What the schema makes of an input. Throws {@link InvalidInput} with every issue. */
export function read<Output>(schema: z.ZodType<Output>, input: unknown): Output {
  const parsed = schema.safeParse(input)
  if (!parsed.success) throw new InvalidInput(issuesOf(parsed.error))
  return parsed.data
}

/** The issues of a schema in our form. */
export function issuesOf(error: z.ZodError): readonly Issue[] {
  return error.issues.flatMap((issue) => {
    if (issue.code !== 'unrecognized_keys') return [{ path: dotted(issue.path), message: issue.message }]
    return issue.keys.map((key) => ({ path: dotted([...issue.path, key]), message: 'unknown field' }))
  })
}

/** A path as it stands in an issue. */
export function dotted(path: readonly PropertyKey[]): string {
  return path.map(String).join('.')
}

function shown(input: unknown): string {
  if (input === undefined) return 'nothing'
  if (typeof input === 'string') return JSON.stringify(input.length > 40 ? `${input.slice(0, 40)}…` : input)
  if (Array.isArray(input)) return 'an array'
  if (typeof input === 'object' && input !== null) return 'an object'
  return typeof input === 'symbol' ? 'a number out of range' : JSON.stringify(input)
}
