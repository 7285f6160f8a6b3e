import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'

import { PermanentError, RetryAfterError, snooze } from '../../src/errors.ts'
import { defineJob } from '../../src/registry.ts'
import { job, never, openRoot, settings, type Root } from '../support/tick.ts'

/* oxlint-disable typescript/only-throw-error -- handlers do throw such things */

const circular: Record<string, unknown> = {}
circular.self = circular

class Unreadable extends Error {
  override get message(): string {
    throw new Error('no message for you')
  }
}

describe('a bad job never touches its neighbours (G10)', () => {
  let root: Root
  beforeEach(async () => {
    root = await openRoot()
  })
  afterEach(() => root.close())

  const bad = { status: 'pending', attempts: 1 }
  const cases: readonly [string, () => unknown, object][] = [
    [
      'throws',
      () => {
        throw new Error('boom')
      },
      { ...bad, last_error: 'boom' },
    ],
    ['rejects', () => Promise.reject(new TypeError('no')), { ...bad, last_error: 'TypeError: no' }],
    [
      'throws a text',
      () => {
        throw 'just text'
      },
      { ...bad, last_error: 'just text' },
    ],
    [
      'throws undefined',
      () => {
        throw undefined
      },
      { ...bad, last_error: 'threw undefined' },
    ],
    [
      'throws something circular',
      () => {
        throw circular
      },
      { ...bad, last_error: 'threw something that cannot be described' },
    ],
    [
      'throws an error whose message throws',
      () => {
        throw new Unreadable()
      },
      bad,
    ],
    [
      'throws a message with U+0000 and a lone surrogate (trap 11)',
      () => {
        throw new Error('a\0b\uD800c')
      },
      { ...bad, last_error: 'a\uFFFDb\uFFFDc' },
    ],
    [
      'throws 256 KiB of text',
      () => {
        throw new Error('x'.repeat(262_144))
      },
      { ...bad, last_error: 'x'.repeat(8_192) },
    ],
    [
      'hangs and ignores its signal',
      () => never,
      { ...bad, last_error: 'the handler did not finish within its timeout of 100 ms' },
    ],
    [
      'says that no attempt can help',
      () => {
        throw new PermanentError('gone')
      },
      { status: 'dead', attempts: 1, last_error: 'gone' },
    ],
    [
      'asks to run later',
      () => snooze({ seconds: 60 }),
      { status: 'pending', attempts: 0, last_error: null },
    ],
    ['returns something circular', () => circular, { status: 'completed', result: null }],
    ['returns a BigInt', () => 1n, { status: 'completed', result: null }],
    ['returns too much', () => 'x'.repeat(100_000), { status: 'completed', result: null }],
    ['returns text with U+0000', () => ({ 'k\0': 'a\0b' }), { status: 'completed' }],
    [
      'throws after it has resolved',
      () => {
        setTimeout(() => void Promise.reject(new Error('late')).catch(() => undefined))
        return 'ok'
      },
      { status: 'completed', result: 'ok' },
    ],
  ]

  it.each(cases)('one that %s', async (_what, misbehave, expected) => {
    const neighbours = await Promise.all([root.put('t', 'good'), root.put('t', 'good')])
    const id = await root.put('t', 'bad')
    const after = await root.put('t', 'good')
    const mixed = job((payload) => (payload === 'bad' ? (misbehave() as never) : 'fine'), { timeout: 100 })
    const report = await root.tick([mixed])
    expect(report).toMatchObject({ claimed: 4, stopped: 'empty' })
    await expect(root.job(id)).resolves.toMatchObject(expected)
    for (const neighbour of [...neighbours, after]) {
      await expect(root.job(neighbour)).resolves.toMatchObject({
        status: 'completed',
        result: 'fine',
        attempts: 1,
      })
    }
  })

  it('a timed-out handler that has not returned is not due again before its lease ends', async () => {
    const id = await root.put('t')
    await root.tick([job(() => never, { timeout: 100 })], { windowMs: 5_000 })
    const [row] = await root.db.query<{ s: number }>(
      'select extract(epoch from available_at - started_at)::float8 as s from tidegate.jobs where id = $1',
      [id],
    )
    expect(row?.s).toBeGreaterThanOrEqual((5_000 + settings.leaseMarginMs - 1_000) / 1_000)
  })

  it('waits as long as the outside asked for', async () => {
    const id = await root.put('t')
    await root.tick([
      job(() => {
        throw new RetryAfterError('busy', { retryAfterMs: 600_000 })
      }),
    ])
    const [row] = await root.db.query<{ s: number }>(
      'select extract(epoch from available_at - updated_at)::float8 as s from tidegate.jobs where id = $1',
      [id],
    )
    expect(row?.s).toBe(600)
  })

  it('a payload that its schema refuses by now is a failure like any other, with all its issues', async () => {
    const strict = defineJob({
      type: 't',
      payload: z.object({ email: z.string(), n: z.number() }),
      run: () => 'never',
    })
    const id = await root.put('t', { email: 1 })
    await expect(root.tick([strict])).resolves.toMatchObject({ retried: 1 })
    const row = await root.job(id)
    expect(row).toMatchObject({ status: 'pending', attempts: 1, history: [{ code: 'payload_invalid' }] })
    expect(row.last_error).toMatch(/payload\.email.*payload\.n/)
  })

  it('transforms the payload before the run, and defaults apply', async () => {
    const seen: unknown[] = []
    const transforming = defineJob({
      type: 't',
      payload: z.object({ at: z.string().transform((text) => new Date(text)), n: z.number().default(7) }),
      run: (payload) => void seen.push(payload),
    })
    await root.put('t', { at: '2020-01-01' })
    await root.tick([transforming])
    expect(seen).toEqual([{ at: new Date('2020-01-01'), n: 7 }])
  })

  it('inserts follow-ups with the completion, and none when the run fails', async () => {
    const child = job(() => undefined, { type: 'child' })
    const parent = job((payload, { enqueue }) => {
      enqueue(child, { from: 'parent' }, { delaySeconds: 60 })
      if (payload === 'fails') throw new Error('after the enqueue')
    })
    const id = await root.put('t', 'succeeds')
    await root.put('t', 'fails')
    await root.tick([parent, child])
    const children = (await root.jobs()).filter(({ type }) => type === 'child')
    expect(children).toMatchObject([
      { idempotency_key: `${id}:1`, payload: { from: 'parent' }, status: 'pending' },
    ])
  })

  it.each([
    ['a payload that cannot be stored', (enqueue: Enqueue) => enqueue('t', 'a\0b')],
    ['a bad type', (enqueue: Enqueue) => enqueue('no spaces', {})],
    ['a delay out of bounds', (enqueue: Enqueue) => enqueue('t', {}, { delaySeconds: -1 })],
    ['a payload that the schema refuses', (enqueue: Enqueue) => enqueue('strict', 1)],
  ])('refuses a follow-up with %s, as a failure of the run', async (_what, misuse) => {
    const strict = defineJob({ type: 'strict', payload: z.string(), run: () => undefined })
    const id = await root.put('t')
    await root.tick([job((_payload, { enqueue }) => misuse(enqueue as Enqueue)), strict])
    await expect(root.job(id)).resolves.toMatchObject({
      status: 'pending',
      last_error: expect.stringContaining('expected') as string,
    })
    await expect(root.jobs()).resolves.toHaveLength(1)
  })

  it('dies after its last attempt and not before (G3)', async () => {
    const id = await root.put('t', {}, { maxAttempts: 3 })
    const failing = job(() => {
      throw new Error('again')
    })
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      await expect(root.job(id)).resolves.toMatchObject({ status: 'pending', attempts: attempt - 1 })
      await root.db.query('update tidegate.jobs set available_at = now()')
      await root.tick([failing])
    }
    await expect(root.job(id)).resolves.toMatchObject({
      status: 'dead',
      attempts: 3,
      history: [{ attempt: 1 }, { attempt: 2 }, { attempt: 3 }],
    })
  })
})

type Enqueue = (type: string, payload: unknown, options?: object) => void
