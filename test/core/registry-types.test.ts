import { expectTypeOf, test } from 'vitest'
import { z } from 'zod'

import { createRegistry, defineJob, type JobContext, type JobDefinition } from '../../src/registry.ts'

// tsc is what checks this file: it refuses a `@ts-expect-error` above a line without an error.

const payload = z.object({ email: z.string(), copies: z.string().transform(Number) })

test('run gets what the schema makes of a payload', () => {
  const job = defineJob({ type: 'mail', payload, run: ({ copies, email }) => [copies, email] })
  expectTypeOf<Parameters<typeof job.run>[0]>().toEqualTypeOf<{ email: string; copies: number }>()
  expectTypeOf(job.type).toEqualTypeOf<'mail'>()
})

test('run cannot use what the schema does not promise', () => {
  // @ts-expect-error -- there is no subject
  const subject = defineJob({ type: 'mail', payload, run: (mail) => mail.subject })
  // @ts-expect-error -- a number has no trim
  const trim = defineJob({ type: 'mail', payload, run: ({ copies }) => copies.trim() })
  // @ts-expect-error -- copies is a number after the schema
  const before = defineJob({ type: 'mail', payload, run: (_mail: { copies: string }) => null })
  expectTypeOf([subject, trim, before]).toBeArray()
})

test('the context carries the bindings that the handler declares', () => {
  const job = defineJob({
    type: 'mail',
    payload,
    run(_mail, { env }: JobContext<{ API_KEY: string }>) {
      // @ts-expect-error -- not declared
      return [env.API_KEY.trim(), env.OTHER_KEY as string]
    },
  })
  expectTypeOf(job).toEqualTypeOf<JobDefinition<'mail', typeof payload, { API_KEY: string }>>()
})

test('bindings that the handler does not declare are unknown', () => {
  // @ts-expect-error -- unknown
  const undeclared = defineJob({ type: 'mail', payload, run: (_mail, { env }) => env.API_KEY as string })
  expectTypeOf<Parameters<typeof undeclared.run>[1]>().toEqualTypeOf<JobContext>()
})

test('a handler returns JSON, a snooze or nothing', () => {
  const result = defineJob({ type: 'a', payload, run: () => ({ sent: [1, null, 'x'] }) })
  const nothing = defineJob({ type: 'a', payload, run: async () => {} })
  // @ts-expect-error -- a date is not JSON
  const date = defineJob({ type: 'a', payload, run: () => new Date(0) })
  // @ts-expect-error -- nor is a function
  const routine = defineJob({ type: 'a', payload, run: () => () => 1 })
  expectTypeOf([result, nothing, date, routine]).toBeArray()
})

test('a definition has a schema, a handler and limits with known units', () => {
  const limited = defineJob({ type: 'a', payload, timeout: '1.5s', run: () => null })
  // @ts-expect-error -- days are no unit
  const days = defineJob({ type: 'a', payload, timeout: '2d', run: () => null })
  // @ts-expect-error -- no schema
  const shapeless = defineJob({ type: 'a', run: () => null })
  // @ts-expect-error -- no handler
  const idle = defineJob({ type: 'a', payload })
  expectTypeOf([limited, days, shapeless, idle]).toBeArray()
})

test('a registry takes definitions of any payload and bindings together', () => {
  const mail = defineJob({ type: 'a', payload, run: (_mail, { env }: JobContext<{ A: string }>) => env.A })
  const text = defineJob({
    type: 'b',
    payload: z.string(),
    run: (_text, { env }: JobContext<{ B: number }>) => env.B,
  })
  expectTypeOf(createRegistry).toBeCallableWith([mail, text])
})

test('a follow-up is named by its type or by its definition', () => {
  const mail = defineJob({ type: 'a', payload, run: (_mail, { env }: JobContext<{ A: string }>) => env.A })
  expectTypeOf<JobContext['enqueue']>().toBeCallableWith(mail, { email: 'a', copies: '1' })
  expectTypeOf<JobContext['enqueue']>().toBeCallableWith('a', null, { delaySeconds: 1 })
})
