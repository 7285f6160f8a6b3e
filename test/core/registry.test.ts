import { expect, test } from 'vitest'
import { z } from 'zod'

import type { Duration } from '../../src/duration.ts'
import { admissionMs, createRegistry, defineJob, REGISTRY_DEFAULTS, type AnyJob } from '../../src/registry.ts'

interface Limits {
  timeout?: Duration
  maxAttempts?: number
}

const job = (type: string, limits: Limits = {}): AnyJob =>
  defineJob({ type, payload: z.object({ n: z.number() }), run: ({ n }) => n, ...limits })

const register = (type: string, limits: Limits = {}) => createRegistry([job(type, limits)]).get(type)

test('a definition without limits gets the defaults of its root', () => {
  const defaults = { ...REGISTRY_DEFAULTS, timeoutMs: 7_000, maxAttempts: 3, backoff: { delaysMs: [1_000] } }
  expect(createRegistry([job('a')], defaults).get('a')).toMatchObject({
    type: 'a',
    timeoutMs: 7_000,
    maxAttempts: 3,
    backoff: { delaysMs: [1_000] },
  })
})

test('a definition keeps the limits that it names', () => {
  expect(register('a', { timeout: '2s', maxAttempts: 1 })).toMatchObject({ timeoutMs: 2_000, maxAttempts: 1 })
})

test('a handler is called as a method of its definition', async () => {
  const definition = { type: 'a', payload: z.unknown(), greeting: 'hello', run: greet }
  function greet(this: { greeting: string }) {
    return this.greeting
  }
  const run = createRegistry([definition]).get('a')?.run
  expect(await run?.(undefined, undefined as never)).toBe('hello')
})

test('a type is defined once', () => {
  expect(() => createRegistry([job('a'), job('b'), job('a')])).toThrow('job type "a" is defined twice')
})

test.each(['', ' ', '.a', 'a b', 'ä', 'a\n', 'a'.repeat(101), '__proto__'])('%j is no type name', (type) => {
  expect(() => register(type)).toThrow(`got ${JSON.stringify(type)}`)
})

test.each(['a', 'A.b:c_d-9', '0', 'constructor', 'a'.repeat(100)])('%j is a type name', (type) => {
  expect(register(type)?.type).toBe(type)
})

test.each([0, -1, 1.5, 101, Number.NaN, Infinity])('maxAttempts of %d is refused', (maxAttempts) => {
  expect(() => register('a', { maxAttempts })).toThrow(
    `job type a: expected maxAttempts from 1 to 100, got ${maxAttempts}`,
  )
})

test.each([1, 100])('maxAttempts of %d is accepted', (maxAttempts) => {
  expect(register('a', { maxAttempts })?.maxAttempts).toBe(maxAttempts)
})

test('a timeout that is no duration is refused', () => {
  expect(() => register('a', { timeout: -1 })).toThrow('expected a duration')
})

test('a timeout that never fits is refused with the window that it needs, and that window is enough', () => {
  const timeout = 60_000
  const needed = admissionMs(timeout) + REGISTRY_DEFAULTS.reserveMs
  expect(() => register('a', { timeout })).toThrow(
    `job type a: a timeout of 60000 ms never fits into a window of 50000 ms, of which 5000 ms are kept for settling; ` +
      `it needs TICK_WINDOW_MS of at least ${needed}`,
  )
  const within = (windowMs: number) => () =>
    createRegistry([job('a', { timeout })], { ...REGISTRY_DEFAULTS, windowMs })
  expect(within(needed)).not.toThrow()
  expect(within(needed - 1)).toThrow('never fits')
})
