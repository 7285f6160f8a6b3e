import type { ServerResponse } from 'node:http'

import { startReceiver, type Received } from '../support/webhook-receiver.ts'

/**
 * What becomes of a push on its way to the gateway:
 * - `deliver`: the gateway gets it and its answer comes back.
 * - `hold`: nothing comes back before the gateway gets it, and that is when the test says so, if at all.
 * - `stall`: the gateway gets it, but of its answer only the head comes back.
 * - `fail`: it is lost, and a proxy answers 500.
 * - `half`: the gateway gets it, but the answer breaks off.
 */
export type Fate = 'deliver' | 'hold' | 'stall' | 'fail' | 'half'

/** A push that the network still has. */
export interface Held {
  readonly sequence: number
  /** Hands it to the gateway, whether or not anybody still waits for the answer. */
  readonly deliver: () => Promise<void>
}

/** A network between ticks and the gateway. */
export interface Network extends AsyncDisposable {
  readonly url: string
  /** The fates of the next pushes, in order. The default is `deliver`. */
  readonly plan: (...fates: Fate[]) => void
  /** Resolves when the next push has come to be held. */
  readonly nextHeld: () => Promise<Held>
  /** What is held; whoever delivers it takes it out. */
  readonly held: Held[]
  /** Every push that was sent, in order. */
  readonly sent: readonly Received[]
  /** The number of the snapshot that the gateway took last. */
  readonly delivered: () => number
}

/** Opens a network in front of a Pushgateway. `onDelivery` delays the answer to a push that was delivered. */
export async function openNetwork(
  gateway: string,
  onDelivery: (sequence: number) => Promise<void> = async () => undefined,
): Promise<Network> {
  const fates: Fate[] = []
  const held: Held[] = []
  let arrival = Promise.withResolvers<Held>()
  let delivered = 0

  /** Resolves to the status of the gateway's answer. */
  const deliver = async ({ method = '', path = '', headers, body }: Received): Promise<number> => {
    const contentType = headers['content-type'] ?? ''
    const response = await fetch(gateway + path, { method, headers: { 'content-type': contentType }, body })
    await response.text()
    if (response.ok) {
      delivered = sequenceOf(body)
      await onDelivery(delivered)
    }
    return response.status
  }

  const receive = async (response: ServerResponse, request: Received): Promise<void> => {
    const fate = fates.shift() ?? 'deliver'
    const pass = async () => void response.writeHead(await deliver(request)).end()
    switch (fate) {
      case 'deliver':
        return pass()
      case 'stall':
        return void response.writeHead(await deliver(request)).write('wait')
      case 'half':
        await deliver(request)
        return void response.destroy()
      case 'fail':
        return void response.writeHead(500).end('lost')
      case 'hold': {
        const push = { sequence: sequenceOf(request.body), deliver: pass }
        held.push(push)
        arrival.resolve(push)
        arrival = Promise.withResolvers()
      }
    }
  }

  const receiver = await startReceiver((response, request) => void receive(response, request))
  return {
    url: receiver.origin,
    plan: (...planned) => void fates.push(...planned),
    nextHeld: () => arrival.promise,
    held,
    sent: receiver.received,
    delivered: () => delivered,
    [Symbol.asyncDispose]: () => receiver[Symbol.asyncDispose](),
  }
}

function sequenceOf(body: string): number {
  return Number(/^tidegate_snapshot_sequence (\d+)$/m.exec(body)?.[1])
}
