import { expect, test } from 'vitest'

import { builtinJobs } from '../../src/handlers/builtin.ts'
import { readWebhookTargets } from '../../src/handlers/webhook-config.ts'
import { createRegistry } from '../../src/registry.ts'

const key = btoa('k'.repeat(32))
const secret = `whsec_${key}`
const url = 'https://example.com/hooks'

const read = (webhooks: unknown, settings: Record<string, unknown> = {}) =>
  readWebhookTargets(typeof webhooks === 'string' ? webhooks : JSON.stringify(webhooks), settings)

/** The issues, each as one line. */
function problems(webhooks: unknown, settings?: Record<string, unknown>): readonly string[] {
  const result = read(webhooks, settings)
  return result.ok ? [] : result.issues.map(({ path, message }) => `${path}: ${message}`)
}

const problemsOf = (target: unknown, settings?: Record<string, unknown>) =>
  problems({ 'invoice.paid': target }, settings)

test('a target needs a URL and nothing else', () => {
  expect(read({ 'invoice.paid': { url } })).toEqual({
    ok: true,
    targets: new Map([
      [
        'invoice.paid',
        {
          url,
          timeout_ms: 10_000,
          headers: {},
          max_attempts: 8,
          backoff_seconds: [5, 300, 1_800, 7_200, 18_000, 36_000, 36_000],
        },
      ],
    ]),
  })
})

test('every target becomes a job type beside test.echo', () => {
  const result = read({ 'invoice.paid': { url, max_attempts: 2 }, 'invoice.void': { url } })
  const registry = createRegistry(builtinJobs(result.ok ? result.targets : new Map()))
  expect([...registry.keys()]).toEqual(['test.echo', 'invoice.paid', 'invoice.void'])
  expect(registry.get('invoice.paid')?.maxAttempts).toBe(2)
})

test('no webhooks are acceptable', () => {
  expect(read({})).toEqual({ ok: true, targets: new Map() })
  expect(builtinJobs().map(({ type }) => type)).toEqual(['test.echo'])
})

test('a secret stands in its target, or in the setting that the target names', () => {
  const result = read({ a: { url, secret }, b: { url, secret: { env: 'B_SECRET' } } }, { B_SECRET: secret })
  expect(result.ok && [...result.targets.values()].map((target) => target.secret)).toEqual([secret, secret])
})

test('a reference to a setting that does not hold a secret is refused by the setting’s name', () => {
  const path = 'WEBHOOKS.invoice.paid.secret'
  const expected = 'expected the setting B_SECRET to hold whsec_<base64 of 24 to 64 bytes>'
  const held = (value: unknown) => problemsOf({ url, secret: { env: 'B_SECRET' } }, { B_SECRET: value })
  expect(held(undefined)).toEqual([`${path}: ${expected}, got nothing`])
  expect(held('')).toEqual([`${path}: ${expected}, got an empty text`])
  expect(held(key)).toEqual([`${path}: ${expected}, got another text`])
})

test.each(['', 'not json', '[]', 'null', '"x"', '{"a":'])('WEBHOOKS of %j is refused whole', (text) => {
  expect(problems(text)).toEqual(['WEBHOOKS: expected a JSON object of job type → target'])
})

const URL_EXPECTED = 'url: expected an http or https URL without user and password'

test.each<[object, string]>([
  [{}, `${URL_EXPECTED}, got nothing`],
  [{ url: 1 }, `${URL_EXPECTED}, got 1`],
  [{ url: 'example.com' }, `${URL_EXPECTED}, got another text`],
  [{ url: 'ftp://example.com' }, `${URL_EXPECTED}, got another text`],
  [{ url: 'https://user@example.com' }, `${URL_EXPECTED}, got another text`],
  [{ url: 'https://:pass@example.com' }, `${URL_EXPECTED}, got another text`],
  [{ url, timeout_ms: 0 }, 'timeout_ms: expected a whole number from 1 to 900000, got 0'],
  [{ url, timeout_ms: '10s' }, 'timeout_ms: expected a whole number from 1 to 900000, got another text'],
  [{ url, max_attempts: 1.5 }, 'max_attempts: expected a whole number from 1 to 100, got 1.5'],
  [{ url, max_attempts: 101 }, 'max_attempts: expected a whole number from 1 to 100, got 101'],
  [{ url, backoff_seconds: 5 }, 'backoff_seconds: expected a list of 1 to 100 numbers of seconds, got 5'],
  [
    { url, backoff_seconds: [] },
    'backoff_seconds: expected a list of 1 to 100 numbers of seconds, got a list of 0',
  ],
  [
    { url, backoff_seconds: [5, 0] },
    'backoff_seconds.1: expected a number of seconds from 1 to 31536000, got 0',
  ],
  [{ url, headers: [] }, 'headers: expected an object of header names and texts, got a list of 0'],
  [{ url, headers: { 'x-a': 1 } }, 'headers.x-a: expected printable ASCII, got 1'],
  [{ url, headers: { 'x-a': 'a\r\nb: c' } }, 'headers.x-a: expected printable ASCII, got another text'],
])('the target %j is refused with its path', (target, problem) => {
  expect(problemsOf(target)).toEqual([`WEBHOOKS.invoice.paid.${problem}`])
})

test.each([
  'content-type',
  'Content-Length',
  'webhook-id',
  'Webhook-Anything',
  'user-agent',
  'traceparent',
  'host',
  'a b',
  '',
])('the header %j is refused', (name) => {
  expect(problemsOf({ url, headers: { [name]: 'x' } })).toEqual([
    `WEBHOOKS.invoice.paid.headers.${name}: ` +
      'expected the name of a header that is neither set by the webhook itself nor the connection’s',
  ])
})

test.each<[unknown, string]>([
  [key, 'whsec_<base64 of 24 to 64 bytes>, got another text'],
  ['whsec_', 'whsec_<base64 of 24 to 64 bytes>, got another text'],
  ['whsec_***', 'whsec_<base64 of 24 to 64 bytes>, got another text'],
  [`${secret}\n`, 'whsec_<base64 of 24 to 64 bytes>, got another text'],
  [`whsec_${btoa('k'.repeat(23))}`, 'whsec_<base64 of 24 to 64 bytes>, got another text'],
  [`whsec_${btoa('k'.repeat(65))}`, 'whsec_<base64 of 24 to 64 bytes>, got another text'],
  [1, '"whsec_<base64 of 24 to 64 bytes>" or { "env": "<NAME of a setting>" }, got 1'],
  [{ env: secret }, '"whsec_<base64 of 24 to 64 bytes>" or { "env": "<NAME of a setting>" }, got an object'],
  [
    { env: 'A', or: 'B' },
    '"whsec_<base64 of 24 to 64 bytes>" or { "env": "<NAME of a setting>" }, got an object',
  ],
])('the secret %j is refused', (secret, problem) => {
  expect(problemsOf({ url, secret })).toEqual([`WEBHOOKS.invoice.paid.secret: expected ${problem}`])
})

test.each([24, 32, 64])('a secret of %d bytes is accepted', (bytes) => {
  expect(problemsOf({ url, secret: `whsec_${btoa('k'.repeat(bytes))}` })).toEqual([])
})

test('everything that is wrong is reported at once', () => {
  expect(problems({ 'a b': { url }, c: null, d: { url: 'x', retries: 3, max_attempts: 0 } })).toEqual([
    'WEBHOOKS.a b: expected a job type of the form ^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$',
    'WEBHOOKS.c: expected an object, got null',
    'WEBHOOKS.d.url: expected an http or https URL without user and password, got another text',
    'WEBHOOKS.d.max_attempts: expected a whole number from 1 to 100, got 0',
    'WEBHOOKS.d: expected only url, secret, timeout_ms, headers, max_attempts, backoff_seconds, got retries',
  ])
})

test('no message shows a URL, a header or a secret', () => {
  const hidden = 'hunter2hunter2'
  const targets = {
    a: { url: `ftp://example.com/${hidden}`, secret: hidden, headers: { 'x-a': `${hidden}\n` } },
    b: {
      url: `https://${hidden}@example.com`,
      secret: { env: hidden },
      timeout_ms: hidden,
      backoff_seconds: [hidden],
    },
    c: { url, secret: { env: 'C' } },
    d: hidden,
  }
  const shown = problems(targets, { C: hidden })
  expect(shown).toHaveLength(9)
  expect(shown.join('\n')).not.toContain(hidden)
  expect(problems(`{"a":{"secret":"${hidden}`).join()).not.toContain(hidden)
})
