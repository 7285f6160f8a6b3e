import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

import { failure, MAX_BYTES, type Answer } from './neon/answer.ts'
import { openBackend, type Backend } from './neon/backend.ts'
import { answerSql } from './neon/sql.ts'

/** A request, as it arrived. */
export interface EndpointRequest {
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/**
 * What goes wrong with a request, and when: before its statement runs or after it has committed. `close` is the
 * socket without an answer, a number is that status, a promise holds the request until it is fulfilled.
 */
export interface Fault {
  readonly at: 'arrival' | 'commit'
  readonly what: 'close' | number | Promise<unknown>
}

/** Neon's `/sql` in front of a Postgres of ours, on 127.0.0.1. */
export interface NeonEndpoint extends AsyncDisposable {
  /** For NEON_ENDPOINT. */
  readonly url: string
  /** Every request so far, the oldest first. */
  readonly requests: readonly EndpointRequest[]
  /** Chooses the fault of each request from here on, by its number from 1. */
  readonly failWith: (choose: (number: number) => Fault | undefined) => void
}

/**
 * Starts an endpoint that speaks the protocol of Neon's proxy, as its source and the driver's have it
 * (github.com/neondatabase/neon, proxy/src/serverless/sql_over_http.rs; @neondatabase/serverless 1.2). User,
 * password and database come with each request; the server does not, so that a Neon URL works too.
 */
export async function startNeonEndpoint(options: { readonly server: string }): Promise<NeonEndpoint> {
  const backend = openBackend(options.server)
  const requests: EndpointRequest[] = []
  let chosen: (number: number) => Fault | undefined = () => undefined
  let number = 0
  const serve = async (incoming: IncomingMessage, response: ServerResponse) => {
    const body = await readBody(incoming)
    requests.push({ headers: incoming.headers, body: body ?? '' })
    number += 1
    const fault = chosen(number)
    const before = fault?.at === 'arrival' ? await suffer(fault, incoming) : undefined
    if (before !== undefined) return send(response, before)
    const answer = await answerRequest(backend, incoming, body)
    const after = fault?.at === 'commit' ? await suffer(fault, incoming) : undefined
    send(response, after ?? answer)
  }
  const server = createServer((incoming, response) => {
    serve(incoming, response).catch(() => incoming.socket.destroy())
  })
  // An idle socket that we close is a fault, and faults come only when a test asks for one.
  server.keepAliveTimeout = 0
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/sql`,
    requests,
    failWith(choose) {
      chosen = choose
      number = 0
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((closed) => server.close(closed))
      await backend.close()
    },
  }
}

// undefined when it is too long: what is left of it is read, so that the client comes to hear of it.
async function readBody(incoming: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes <= MAX_BYTES) chunks.push(chunk)
  }
  return bytes <= MAX_BYTES ? Buffer.concat(chunks).toString('utf8') : undefined
}

async function answerRequest(
  backend: Backend,
  incoming: IncomingMessage,
  body: string | undefined,
): Promise<Answer> {
  if (incoming.url !== '/sql') return failure(404, 'page not found')
  if (incoming.method !== 'POST') return failure(400, `expected POST, got ${incoming.method}`)
  if (body === undefined) return failure(413, `request is too large (max is ${MAX_BYTES} bytes)`)
  return answerSql(backend, incoming.headers, body)
}

async function suffer({ what }: Fault, { socket }: IncomingMessage): Promise<Answer | undefined> {
  if (what === 'close') {
    socket.destroy()
    return failure(500, 'nobody reads this')
  }
  if (typeof what === 'number') return failure(what, 'this fault was asked for')
  await what
  return undefined
}

function send(response: ServerResponse, { status, headers, body }: Answer): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers })
  response.end(body)
}
