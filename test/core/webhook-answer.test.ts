import type { ServerResponse } from 'node:http'

import * as fc from 'fast-check'
import { expect, test } from 'vitest'

import { PermanentError, RetryAfterError } from '../../src/errors.ts'
import type { WebhookTargetInput } from '../../src/handlers/webhook-target.ts'
import { webhookJob, type WebhookOptions } from '../../src/handlers/webhook.ts'
import { handlerContext, startReceiver } from '../support/webhook-receiver.ts'

/** The error of a delivery that must fail. */
async function failureOf(
  target: WebhookTargetInput,
  options: WebhookOptions = {},
  signal?: AbortSignal,
): Promise<Error> {
  const context = handlerContext(signal === undefined ? {} : { signal })
  try {
    await webhookJob('invoice.paid', target, options).run({ invoice: 7 }, context)
  } catch (error) {
    if (error instanceof Error) return error
  }
  throw new Error('expected the delivery to fail with an error')
}

async function failureAt(
  answer: (response: ServerResponse) => void,
  options: WebhookOptions = {},
): Promise<Error> {
  await using receiver = await startReceiver(answer)
  return await failureOf({ url: receiver.origin }, options)
}

test.each([408, 409, 425, 429, 500, 501, 502, 503, 504, 599])('%d is retried', async (status) => {
  await using receiver = await startReceiver((response) => response.writeHead(status).end('busy'))
  const error = await failureOf({ url: receiver.origin })
  expect(error).not.toBeInstanceOf(PermanentError)
  expect(error).not.toBeInstanceOf(RetryAfterError)
  expect(error.message).toBe(`${receiver.origin} answered ${status}: busy`)
  expect(receiver.received).toHaveLength(1)
})

test.each([400, 401, 403, 404, 405, 410, 413, 422, 451, 499])('%d is permanent', async (status) => {
  await using receiver = await startReceiver((response) =>
    response.writeHead(status, { 'retry-after': '5' }).end('no such invoice'),
  )
  const error = await failureOf({ url: receiver.origin })
  expect(error).toBeInstanceOf(PermanentError)
  expect(error.message).toBe(`${receiver.origin} answered ${status}: no such invoice`)
})

test.each([300, 301, 302, 303, 304, 307, 308])('%d is permanent, and not followed', async (status) => {
  await using receiver = await startReceiver((response) =>
    response.writeHead(status, { location: '/elsewhere' }).end(),
  )
  const error = await failureOf({ url: receiver.origin })
  expect(error).toBeInstanceOf(PermanentError)
  expect(error.message).toBe(`${receiver.origin} answered ${status}, and redirects are not followed`)
  expect(receiver.received).toHaveLength(1)
})

const NOW = Date.UTC(2026, 0, 31, 23, 59, 30)

test.each([
  ['0', 0],
  ['120', 120_000],
  ['86400', 86_400_000],
  ['86401', 86_400_000],
  ['9'.repeat(400), 86_400_000],
  ['Sun, 01 Feb 2026 00:01:00 GMT', 90_000],
  ['Sunday, 01-Feb-26 00:01:00 GMT', 90_000],
  ['Sun Feb  1 00:01:00 2026', 90_000],
  ['Sat, 31 Jan 2026 23:59:00 GMT', 0],
  ['Fri, 01 Jan 2027 00:00:00 GMT', 86_400_000],
])('Retry-After: %s holds the retry back for %d ms', async (header, retryAfterMs) => {
  const answer = (response: ServerResponse) => response.writeHead(429, { 'retry-after': header }).end()
  const error = await failureAt(answer, { now: () => NOW })
  expect(error).toBeInstanceOf(RetryAfterError)
  expect(error).toMatchObject({ retryAfterMs })
})

test.each(['', '-1', '1.5', 'soon', '5, 10', '2026-02-01', 'Sun, 99 Foo 2026 00:01:00 GMT'])(
  'Retry-After: %s says nothing',
  async (header) => {
    const error = await failureAt((response) => response.writeHead(503, { 'retry-after': header }).end())
    expect(error).not.toBeInstanceOf(RetryAfterError)
    expect(error).not.toBeInstanceOf(PermanentError)
  },
)

test('whatever a receiver answers is a success, or an error with a bounded delay and a bounded message', async () => {
  const answers = {
    status: fc.integer({ min: 200, max: 599 }),
    retryAfter: fc.oneof(fc.string(), fc.nat().map(String)).filter((text) => /^[\x20-\x7e]*$/.test(text)),
    bytes: fc.uint8Array({ maxLength: 2_000 }),
  }
  const property = fc.asyncProperty(fc.record(answers), async ({ status, retryAfter, bytes }) => {
    const body = [204, 205, 304].includes(status) ? null : bytes
    const fetch = async () => new Response(body, { status, headers: { 'retry-after': retryAfter } })
    const run = async () =>
      webhookJob('a', { url: 'https://example.com' }, { fetch }).run(null, handlerContext())
    const result: unknown = await run().catch((error: unknown) => error)
    const { message = '', retryAfterMs = 0 } = result as { message?: string; retryAfterMs?: number }
    expect(result instanceof Error).toBe(status >= 300)
    expect(message.length).toBeLessThanOrEqual(540)
    expect(retryAfterMs).toBeGreaterThanOrEqual(0)
    expect(retryAfterMs).toBeLessThanOrEqual(86_400_000)
  })
  await fc.assert(property)
})

test('of a body without end 500 characters are shown and no more than 64 KiB are read', async () => {
  const chunk = new TextEncoder().encode('x'.repeat(16_384))
  let pulled = 0
  const cancelled = Promise.withResolvers<void>()
  const endless = new ReadableStream({
    pull(controller) {
      pulled += chunk.byteLength
      if (pulled > 1_000_000) controller.error(new Error('read too much'))
      else controller.enqueue(chunk)
    },
    cancel: () => cancelled.resolve(),
  })
  const fetch = async () => new Response(endless, { status: 500 })
  const error = await failureOf({ url: 'https://example.com' }, { fetch })
  await cancelled.promise
  expect(error.message).toBe(`https://example.com answered 500: ${'x'.repeat(500)}`)
  // The stream itself pulls one chunk ahead.
  expect(pulled).toBeLessThanOrEqual(65_536 + chunk.byteLength)
})

test.each([200, 302, 500])('a body without end is hung up on after %d', async (status) => {
  const closed = Promise.withResolvers<void>()
  await using receiver = await startReceiver((response) => {
    const fill = () => {
      while (!response.destroyed && response.write('x'.repeat(16_384)));
    }
    response.writeHead(status).on('close', closed.resolve).on('drain', fill)
    fill()
  })
  await Promise.allSettled([webhookJob('a', { url: receiver.origin }).run(null, handlerContext())])
  await expect(closed.promise).resolves.toBeUndefined()
})

test('an answer counts by its status when its body is cut off', async () => {
  const error = await failureAt((response) => {
    response.writeHead(404, { 'content-length': '1000' })
    response.write('half', () => response.destroy())
  })
  expect(error).toBeInstanceOf(PermanentError)
  expect(error.message).toMatch(/answered 404: half$/)
})

test('a receiver that never answers is left when the signal aborts', async () => {
  const controller = new AbortController()
  const reason = new Error('time is up')
  const left = Promise.withResolvers<void>()
  await using receiver = await startReceiver((response) => {
    response.on('close', left.resolve)
    controller.abort(reason)
  })
  const error = await failureOf({ url: `${receiver.origin}/hooks` }, {}, controller.signal)
  expect(error).not.toBeInstanceOf(PermanentError)
  expect(error.message).toBe(`${receiver.origin} did not answer before the run was stopped`)
  expect(error.cause).toBe(reason)
  await left.promise
})

test('a body that never ends is left when the signal aborts, and its status still counts', async () => {
  const controller = new AbortController()
  const left = Promise.withResolvers<void>()
  await using receiver = await startReceiver((response) => {
    response.on('close', left.resolve).writeHead(400).write('the rest never comes')
  })
  const fetchThenAbort = async (url: string, init: RequestInit) => {
    const response = await fetch(url, init)
    controller.abort()
    return response
  }
  const error = await failureOf({ url: receiver.origin }, { fetch: fetchThenAbort }, controller.signal)
  expect(error).toBeInstanceOf(PermanentError)
  expect(error.message).toContain(`${receiver.origin} answered 400`)
  await left.promise
})

test('a connection that is refused is a plain failure that names the origin and the reason', async () => {
  const receiver = await startReceiver(() => undefined)
  await receiver[Symbol.asyncDispose]()
  const error = await failureOf({ url: `${receiver.origin}/hooks` })
  expect(error).not.toBeInstanceOf(PermanentError)
  expect(error.message).toBe(
    `${receiver.origin} could not be reached: connect ECONNREFUSED ${receiver.origin.replace('http://', '')}`,
  )
})

test('a connection that is reset is a plain failure', async () => {
  const error = await failureAt((response) => response.socket?.resetAndDestroy())
  expect(error.message).toMatch(
    /^http:\/\/127\.0\.0\.1:\d+ could not be reached: (read ECONNRESET|other side closed)$/,
  )
})

test('a name that does not resolve to one address is told by its code', async () => {
  const cause = Object.assign(new AggregateError([], ''), { code: 'ECONNREFUSED' })
  const fetch = () => Promise.reject(new TypeError('fetch failed', { cause }))
  const error = await failureOf({ url: 'https://example.com' }, { fetch })
  expect(error.message).toBe('https://example.com could not be reached: ECONNREFUSED')
})

test('no message shows a secret, a header or the path, though the receiver echoes them', async () => {
  const secret = `whsec_${btoa('k'.repeat(32))}`
  const hidden = ['token-in-path', 'token-in-query', 'token-in-header', secret]
  await using receiver = await startReceiver((response, { path = '', headers }) => {
    if (path.endsWith('reset')) return response.socket?.resetAndDestroy()
    const { searchParams, pathname } = new URL(path, 'http://receiver')
    const token = headers.authorization?.split(' ')[1]
    return response
      .writeHead(Number(path.slice(-3)))
      .end(
        `Cannot POST ${pathname} ${searchParams.get('key')} ${token} ${secret} ${path} ${JSON.stringify(headers)}`,
      )
  })
  for (const end of ['302', '404', '429', '500', 'reset']) {
    const url = `${receiver.origin}/hooks/token-in-path?key=token-in-query&end=${end}`
    const error = await failureOf({ url, secret, headers: { authorization: 'Bearer token-in-header' } })
    const shown = [error.message, error.stack, String(error.cause)].join('\n')
    expect(shown).toContain(receiver.origin)
    expect(hidden.filter((text) => shown.includes(text))).toEqual([])
  }
})
