import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { Webhook } from 'standardwebhooks'

const shownLength = 200

/** Someone who receives webhooks: an HTTP server on 127.0.0.1. */
export interface DemoReceiver {
  readonly url: string
  /** What it expects requests to be signed with, as Standard Webhooks writes it. */
  readonly secret: string
  close(): void
}

/**
 * Starts a receiver on a free port, with a new secret. It prints a line for each request, and answers 204 to
 * a good signature (https://www.standardwebhooks.com) and 401 to any other.
 */
export async function startDemoReceiver(print: (line: string) => void): Promise<DemoReceiver> {
  const secret = `whsec_${randomBytes(32).toString('base64')}`
  const server = createServer((request, response) => {
    void receive(request, new Webhook(secret)).then(({ status, line }) => {
      print(line)
      response.writeHead(status).end()
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    secret,
    close: () => {
      server.close()
      server.closeAllConnections()
    },
  }
}

interface Reception {
  readonly status: number
  readonly line: string
}

async function receive(request: IncomingMessage, webhook: Webhook): Promise<Reception> {
  try {
    const body = await text(request)
    webhook.verify(body, request.headers as Record<string, string>)
    return { status: 204, line: `webhook received: ${body.slice(0, shownLength)}, signature ok` }
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    return { status: 401, line: `webhook refused: ${reason}` }
  }
}
