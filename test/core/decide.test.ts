import * as fc from 'fast-check'
import { expect, test } from 'vitest'

import { DEFAULT_BACKOFF, MAX_DELAY_MS, MIN_BACKOFF_MS, type Backoff } from '../../src/core/backoff.ts'
import { decide, type Attempt } from '../../src/core/decide.ts'
import { LIMITS } from '../../src/core/job.ts'
import type { FailureCode, Outcome } from '../../src/core/outcome.ts'

const anyNumber = fc.oneof(fc.double(), fc.integer(), fc.constantFrom(Number.NaN, Infinity, -Infinity, -1, 0))

/** Any UTF-16, so with U+0000 and lone surrogates, also beyond the limit. */
const anyText = fc.oneof(
  fc
    .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 40 })
    .map((units) => String.fromCharCode(...units)),
  fc.constantFrom(
    '\0',
    '\uD800',
    `${'x'.repeat(LIMITS.errorLength - 1)}\u{1F600}`,
    'y'.repeat(LIMITS.errorLength * 2),
  ),
)

type Failed = Extract<Outcome, { kind: 'failed' }>

const failed: fc.Arbitrary<Failed> = fc.record(
  {
    kind: fc.constant('failed' as const),
    error: anyText,
    code: fc.constantFrom<FailureCode>('timeout', 'payload_invalid', 'crashed'),
    permanent: fc.boolean(),
    returned: fc.boolean(),
    retryAfterMs: anyNumber,
  },
  { requiredKeys: ['kind', 'error', 'permanent', 'returned'] },
)

const outcome: fc.Arbitrary<Outcome> = fc.oneof(
  failed,
  fc.record({ kind: fc.constant('succeeded' as const), result: fc.json() }, { requiredKeys: ['kind'] }),
  fc.record({ kind: fc.constant('snoozed' as const), delayMs: anyNumber }),
  fc.record({ kind: fc.constant('interrupted' as const), entered: fc.boolean() }),
  fc.constant<Outcome>({ kind: 'crashed' }),
)

const job: fc.Arbitrary<Attempt> = fc.record({
  attempt: fc.integer({ min: 1, max: 101 }),
  maxAttempts: fc.integer({ min: 1, max: 100 }),
})

const backoff: fc.Arbitrary<Backoff> = fc.oneof(
  fc.record({ baseMs: anyNumber, factor: anyNumber, maxMs: anyNumber }),
  fc.record({ delaysMs: fc.array(anyNumber, { maxLength: 4 }) }),
)

const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })

const decideOnce = (job: Attempt, outcome: Outcome) => decide(job, outcome, DEFAULT_BACKOFF, () => 0)
const first: Attempt = { attempt: 1, maxAttempts: 5 }
const failure: Failed = { kind: 'failed', error: 'no', permanent: false, returned: true }

test('every outcome of every job becomes a settlement with a storable delay', () => {
  fc.assert(
    fc.property(job, outcome, backoff, random, (job, outcome, backoff, random) => {
      const { delayMs } = { delayMs: MIN_BACKOFF_MS, ...decide(job, outcome, backoff, () => random) }
      expect(Number.isInteger(delayMs)).toBe(true)
      expect(delayMs).toBeGreaterThanOrEqual(MIN_BACKOFF_MS)
      expect(delayMs).toBeLessThanOrEqual(MAX_DELAY_MS)
    }),
  )
})

test('every error text becomes one that can be stored', () => {
  fc.assert(
    fc.property(job, failed, (job, failed) => {
      const { error = '' } = decideOnce(job, failed) as { error?: string }
      expect(error).not.toContain('\0')
      expect(error.isWellFormed()).toBe(true)
      expect(error).toHaveLength(Math.min(failed.error.length, LIMITS.errorLength))
    }),
  )
})

test('a failure is retried exactly while attempts are left and it is not permanent', () => {
  fc.assert(
    fc.property(job, failed, (job, failed) => {
      const retries = job.attempt < job.maxAttempts && !failed.permanent
      expect(decideOnce(job, failed).kind).toBe(retries ? 'retry' : 'dead')
    }),
  )
})

test('a crash is retried exactly while attempts are left, and is never held', () => {
  fc.assert(
    fc.property(job, (job) => {
      const settlement = decideOnce(job, { kind: 'crashed' })
      expect(settlement).toMatchObject({ outcome: 'crashed', code: 'crashed', crashed: true })
      expect(settlement).toMatchObject(
        job.attempt < job.maxAttempts ? { kind: 'retry', held: false } : { kind: 'dead' },
      )
    }),
  )
})

test('a retry is held until its lease ends exactly when the handler has not returned', () => {
  expect(decideOnce(first, failure)).toMatchObject({ kind: 'retry', held: false })
  expect(decideOnce(first, { ...failure, returned: false })).toMatchObject({ kind: 'retry', held: true })
})

test('a retry waits for the backoff or for what the outside asked, whichever is longer', () => {
  const wait = (retryAfterMs: number) => decideOnce(first, { ...failure, retryAfterMs })
  expect(wait(60_000)).toMatchObject({ delayMs: 60_000 })
  expect(wait(1)).toMatchObject({ delayMs: 15_000 })
  expect(wait(-5)).toMatchObject({ delayMs: 15_000 })
  expect(wait(Number.NaN)).toMatchObject({ delayMs: 15_000 })
  expect(wait(Infinity)).toMatchObject({ delayMs: MAX_DELAY_MS })
})

test('a failure stands in the history as failed, timed_out or crashed, with its code', () => {
  const settled = (code: FailureCode) => decideOnce(first, { ...failure, code })
  expect(decideOnce(first, failure)).toEqual({
    kind: 'retry',
    delayMs: 15_000,
    error: 'no',
    outcome: 'failed',
    held: false,
    crashed: false,
  })
  expect(settled('payload_invalid')).toMatchObject({
    outcome: 'failed',
    code: 'payload_invalid',
    crashed: false,
  })
  expect(settled('timeout')).toMatchObject({ outcome: 'timed_out', code: 'timeout', crashed: false })
  expect(settled('crashed')).toMatchObject({ outcome: 'crashed', code: 'crashed', crashed: true })
})

test('a success completes, with its result if it has one', () => {
  expect(decideOnce(first, { kind: 'succeeded' })).toEqual({ kind: 'complete' })
  expect(decideOnce(first, { kind: 'succeeded', result: 'null' })).toEqual({
    kind: 'complete',
    result: 'null',
  })
})

test('a success on the last attempt completes', () => {
  expect(decideOnce({ attempt: 5, maxAttempts: 5 }, { kind: 'succeeded' }).kind).toBe('complete')
})

test('a snooze waits as long as it asked, even on the last attempt', () => {
  const snoozed = (delayMs: number) =>
    decideOnce({ attempt: 5, maxAttempts: 5 }, { kind: 'snoozed', delayMs })
  expect(snoozed(90_000)).toEqual({ kind: 'snooze', delayMs: 90_000, outcome: 'snoozed' })
  expect(snoozed(0)).toEqual({ kind: 'snooze', delayMs: MIN_BACKOFF_MS, outcome: 'snoozed' })
})

test('an interruption releases, and stands in the history only if the handler was entered', () => {
  expect(decideOnce(first, { kind: 'interrupted', entered: false })).toEqual({ kind: 'release' })
  expect(decideOnce(first, { kind: 'interrupted', entered: true })).toEqual({
    kind: 'release',
    outcome: 'interrupted',
  })
})
