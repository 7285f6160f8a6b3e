import * as fc from 'fast-check'
import { expect, test } from 'vitest'

import { durationMs, type Duration } from '../../src/duration.ts'

test.each<[Duration, number]>([
  [1_500, 1_500],
  ['250ms', 250],
  ['10s', 10_000],
  ['1.5s', 1_500],
  ['2m', 120_000],
  ['0.5h', 1_800_000],
])('%j is %d ms', (duration, ms) => {
  expect(durationMs(duration)).toBe(ms)
})

test('a duration is whole milliseconds, whatever its fraction', () => {
  const amount = fc.integer({ min: 1, max: 10_000_000 }).map((n) => `${n / 1_000}s` as const)
  fc.assert(fc.property(amount, (text) => Number.isInteger(durationMs(text))))
  expect(durationMs('1.005s')).toBe(1_005)
})

test.each<[unknown, string]>([
  [0, '0'],
  [-1, '-1'],
  [0.2, '0.2'],
  [Number.NaN, 'NaN'],
  [Infinity, 'Infinity'],
  ['', '""'],
  ['10', '"10"'],
  ['10 s', '"10 s"'],
  ['-1s', '"-1s"'],
  ['1e3s', '"1e3s"'],
  ['10d', '"10d"'],
  ['0s', '"0s"'],
])('%j is refused by its value', (duration, shown) => {
  expect(() => durationMs(duration as Duration)).toThrow(
    `expected a duration such as 1500 (milliseconds) or '10s', got ${shown}`,
  )
})
