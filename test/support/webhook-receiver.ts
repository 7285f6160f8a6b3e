import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

import { createLogger } from '../../src/log.ts'
import type { JobContext } from '../../src/registry.ts'

/** A request as it arrived. */
export interface Received {
  readonly method: string | undefined
  readonly path: string | undefined
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** A real HTTP server on a free loopback port. */
export interface Receiver extends AsyncDisposable {
  readonly origin: string
  readonly received: readonly Received[]
}

/** Starts a receiver that hands each request to `answer`, once it has come in whole. */
export async function startReceiver(
  answer: (response: ServerResponse, request: Received) => void,
): Promise<Receiver> {
  const received: Received[] = []
  const receive = async (incoming: IncomingMessage, response: ServerResponse) => {
    const { method, url, headers } = incoming
    const request = { method, path: url, headers, body: await text(incoming) }
    received.push(request)
    answer(response, request)
  }
  const server = createServer((incoming, response) => void receive(incoming, response))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((closed) => server.close(closed))
    },
  }
}

/** The context of a handler that needs no database. */
export function handlerContext(given: Partial<JobContext> = {}): JobContext {
  const refuse = () => {
    throw new Error('not in this test')
  }
  return {
    id: '01980c2e-0000-7000-8000-000000000001',
    run: '8c5ee1a0-0000-4000-8000-000000000001',
    type: 'invoice.paid',
    attempt: 1,
    maxAttempts: 8,
    traceparent: null,
    signal: new AbortController().signal,
    remainingMs: () => 10_000,
    env: {},
    fetch: (...request) => fetch(...request),
    sql: refuse,
    log: createLogger('silent'),
    enqueue: refuse,
    ...given,
  }
}
