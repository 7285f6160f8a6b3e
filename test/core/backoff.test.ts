import * as fc from 'fast-check'
import { expect, test } from 'vitest'

import {
  backoffMs,
  DEFAULT_BACKOFF,
  MAX_DELAY_MS,
  MIN_BACKOFF_MS,
  type Backoff,
} from '../../src/core/backoff.ts'

const attempt = fc.integer({ min: 1, max: 100 })
const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
const delay = fc.integer({ min: 0, max: 2 * MAX_DELAY_MS })
const curve = fc.record({ baseMs: delay, factor: fc.double({ min: 1, max: 10, noNaN: true }), maxMs: delay })
const list = fc.array(delay, { minLength: 1, maxLength: 12 })

const bounded = (ms: number) => Math.round(Math.min(Math.max(ms, MIN_BACKOFF_MS), MAX_DELAY_MS))

test('a curve waits between its value and half as much again, and never beyond its maximum', () => {
  fc.assert(
    fc.property(attempt, curve, random, (attempt, curve, random) => {
      const value = curve.baseMs * curve.factor ** (attempt - 1)
      const delayMs = backoffMs(attempt, curve, () => random)
      expect(delayMs).toBeGreaterThanOrEqual(bounded(Math.min(value, curve.maxMs)))
      expect(delayMs).toBeLessThanOrEqual(bounded(Math.min(value * 1.5, curve.maxMs)))
    }),
  )
})

test('a list waits between its entry and half as much again', () => {
  fc.assert(
    fc.property(attempt, list, random, (attempt, delaysMs, random) => {
      const entry = delaysMs[Math.min(attempt, delaysMs.length) - 1] ?? Number.NaN
      const delayMs = backoffMs(attempt, { delaysMs }, () => random)
      expect(delayMs).toBeGreaterThanOrEqual(bounded(entry))
      expect(delayMs).toBeLessThanOrEqual(bounded(entry * 1.5))
    }),
  )
})

test('the last entry of a list repeats', () => {
  const backoff: Backoff = { delaysMs: [5_000, 300_000] }
  expect([1, 2, 3, 100].map((attempt) => backoffMs(attempt, backoff, () => 0))).toEqual([
    5_000, 300_000, 300_000, 300_000,
  ])
})

test('jitter spreads equal failures over half of the delay', () => {
  const at = (random: number) => backoffMs(1, { delaysMs: [10_000] }, () => random)
  expect([at(0), at(0.5), at(1 - Number.EPSILON)]).toEqual([10_000, 12_500, 15_000])
})

test('whatever the numbers, a delay is whole milliseconds from one second to a year', () => {
  const any = fc.oneof(fc.double(), fc.constantFrom(Number.NaN, Infinity, -Infinity, 0, -1))
  const backoff: fc.Arbitrary<Backoff> = fc.oneof(
    fc.record({ baseMs: any, factor: any, maxMs: any }),
    fc.record({ delaysMs: fc.array(any, { maxLength: 5 }) }),
  )
  fc.assert(
    fc.property(attempt, backoff, random, (attempt, backoff, random) => {
      const delayMs = backoffMs(attempt, backoff, () => random)
      expect(Number.isInteger(delayMs)).toBe(true)
      expect(delayMs).toBeGreaterThanOrEqual(MIN_BACKOFF_MS)
      expect(delayMs).toBeLessThanOrEqual(MAX_DELAY_MS)
    }),
  )
})

test('five attempts on the default curve outlive an outage of 21 minutes', () => {
  const waits = [1, 2, 3, 4].map((attempt) => backoffMs(attempt, DEFAULT_BACKOFF, () => 0))
  expect(waits).toEqual([15_000, 60_000, 240_000, 960_000])
  expect(waits.reduce((sum, ms) => sum + ms)).toBeGreaterThan(21 * 60_000)
})

test('the default curve never waits longer than an hour', () => {
  expect(backoffMs(100, DEFAULT_BACKOFF, () => 0.999)).toBe(3_600_000)
})
