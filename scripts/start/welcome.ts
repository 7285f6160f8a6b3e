import { relative } from 'node:path'
import type { StartSettings } from './settings.ts'
import type { Tokens } from './tokens.ts'

/** What somebody who has just started needs to know. */
export interface Welcome {
  readonly settings: StartSettings
  readonly url: string
  /** The tokens to show, and the file they are kept in; those that the environment gave are left out. */
  readonly tokens: Partial<Tokens>
  readonly tokensFile: string
  /** Whether jobs of type `demo.webhook` go to a receiver of ours. */
  readonly hasReceiver: boolean
}

/** The lines to print once everything runs. The commands in it work as they stand. */
export function welcomeLines(welcome: Welcome): readonly string[] {
  const { settings, url, tokens, tokensFile } = welcome
  const shown = Object.entries(tokens).map(([scope, token]) => `  ${scope.padEnd(8)} ${token}`)
  return [
    `tidegate is ready: ${url} (environment ${settings.TIDEGATE_ENV}, data in ${near(settings.DATA_DIR)})`,
    ...(shown.length === 0 ? [] : ['', `Tokens, kept in ${near(tokensFile)}:`, ...shown]),
    '',
    ...tryLines(welcome),
    '',
    `Here the cron handler is fired every ${settings.TICK_EVERY_MS} ms; in production it is every minute, so without the kick a job may wait that long for its start.`,
    '',
  ]
}

function tryLines({ url, tokens, hasReceiver }: Welcome): readonly string[] {
  const token = tokens.enqueue ?? tokens.operator ?? '$TOKEN'
  const enqueue = (job: object) =>
    `  curl -s -w '\\n' ${url}/jobs -H "Authorization: Bearer ${token}" -H 'Content-Type: application/json' -d '${JSON.stringify(job)}'`
  const echo = { type: 'test.echo', payload: { msg: 'hello' }, idempotency_key: 'demo-1' }
  // Its own key a start: a repeated one would answer with the old job, and the receiver would hear nothing.
  const webhookKey = `demo-webhook-${Date.now().toString(36)}`
  const webhook = { type: 'demo.webhook', payload: { msg: 'hello' }, idempotency_key: webhookKey }
  return [
    token === '$TOKEN' ? 'To try, with TOKEN set to one of your ENQUEUE_TOKENS:' : 'To try:',
    '  # a job that returns its payload',
    enqueue(echo),
    '  # the same key again: the same job, by now completed',
    enqueue(echo),
    ...(hasReceiver
      ? ['  # a signed webhook, to a receiver in this process that says so below', enqueue(webhook)]
      : []),
  ]
}

function near(path: string): string {
  const fromHere = relative('', path)
  return fromHere.startsWith('..') ? path : fromHere
}
