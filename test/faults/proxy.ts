import { createServer, connect, type AddressInfo, type Server, type Socket } from 'node:net'

import { answerEnds, isStatement } from './wire.ts'

/**
 * What happens to a statement on its way:
 * - `before`: the connection is cut, and the statement never arrives.
 * - `after`: it is delivered and commits, then the connection is cut without an answer.
 * - `half`: as `after`, but half of the answer came through.
 * - `hole`: nothing comes through any more in either direction, and nobody is told.
 * - `late`: it is delivered after a while, even if nobody waits for it any more.
 */
export type Interference = 'before' | 'after' | 'half' | 'hole' | 'late'

/** A TCP proxy in front of Postgres that breaks connections on demand. */
export interface Proxy {
  readonly port: number
  /** Does this to the statement that comes after the next `skip` ones; `ms` is how long a `hole` or `late` takes. */
  readonly arm: (interference: Interference, skip: number, ms: number) => void
  /** Cuts all connections now. */
  readonly cutAll: () => void
  /** Cuts new connections at once for a while. */
  readonly refuse: (ms: number) => void
  /** Makes every connection, idle ones and new ones too, a `hole` for a while. */
  readonly partition: (ms: number) => void
  /** Forgets everything that is armed, and cuts what is stuck. */
  readonly heal: () => void
  readonly close: () => Promise<void>
}

/** Starts a proxy on a free port of 127.0.0.1 in front of the server on `targetPort`. */
export async function startProxy(targetPort: number): Promise<Proxy> {
  const links = new Set<Link>()
  let armed: { interference: Interference; skip: number; ms: number }[] = []
  let refusedUntil = 0
  let partitionedUntil = 0

  const takeArmed = (): { interference: Interference; ms: number } | undefined => {
    const due = armed.find(({ skip }) => skip <= 0)
    armed = armed.filter((one) => one !== due).map((one) => ({ ...one, skip: one.skip - 1 }))
    return due
  }

  // Half open: a black hole answers nothing, not even the end of a connection.
  const server = createServer({ allowHalfOpen: true }, (client) => {
    if (performance.now() < refusedUntil) {
      client.on('error', () => undefined)
      client.destroy()
      return
    }
    const upstream = connect({ port: targetPort, host: '127.0.0.1', allowHalfOpen: true })
    const link = createLink(client, upstream, takeArmed)
    links.add(link)
    const silentMs = partitionedUntil - performance.now()
    if (silentMs > 0) link.silence(silentMs)
    void link.closed.then(() => links.delete(link))
  })
  await listen(server)

  return {
    port: (server.address() as AddressInfo).port,
    arm: (interference, skip, ms) => void armed.push({ interference, skip, ms }),
    cutAll: () => links.forEach((link) => link.cut()),
    refuse: (ms) => void (refusedUntil = performance.now() + ms),
    partition(ms) {
      partitionedUntil = performance.now() + ms
      links.forEach((link) => link.silence(ms))
    },
    heal() {
      armed = []
      refusedUntil = 0
      partitionedUntil = 0
      for (const link of links) if (link.isStuck()) link.cut()
    },
    async close() {
      links.forEach((link) => link.cut())
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** A client's connection and its counterpart. */
interface Link {
  readonly cut: () => void
  /** Lets nothing through for a while, then cuts it. */
  readonly silence: (ms: number) => void
  /** Whether nothing comes through. */
  readonly isStuck: () => boolean
  readonly closed: Promise<void>
}

function createLink(
  client: Socket,
  server: Socket,
  takeArmed: () => { interference: Interference; ms: number } | undefined,
): Link {
  const closed = Promise.withResolvers<void>()
  let state: 'open' | 'hole' | 'held' = 'open'
  let held: Buffer[] = []
  let clientEnded = false
  /** What of the answer under way is passed on, when its end is reached and the connection cut. */
  let cutShare: number | undefined
  let answer: Buffer[] = []

  const cut = (): void => {
    client.destroy()
    server.destroy()
    closed.resolve()
  }

  const silence = (ms: number): void => {
    state = 'hole'
    setTimeout(cut, ms)
  }

  const interfere = (interference: Interference, ms: number, statement: Buffer): void => {
    switch (interference) {
      case 'before':
        return cut()
      case 'after':
      case 'half':
        cutShare = interference === 'half' ? 0.5 : 0
        server.write(statement)
        return
      case 'hole':
        // Half of the holes swallow the statement, the others its answer.
        if (Math.round(ms) % 2 === 0) server.write(statement)
        return silence(ms)
      case 'late':
        state = 'held'
        held = [statement]
        setTimeout(release, ms)
    }
  }

  const release = (): void => {
    state = 'open'
    for (const chunk of held.splice(0)) server.write(chunk)
  }

  client.on('data', (chunk) => {
    if (state === 'hole') return
    if (state === 'held') return void held.push(chunk)
    const due = isStatement(chunk) ? takeArmed() : undefined
    if (due === undefined) server.write(chunk)
    else interfere(due.interference, due.ms, chunk)
  })
  server.on('data', (chunk) => {
    if (state === 'hole') return
    if (cutShare === undefined) {
      if (!clientEnded) client.write(chunk)
      else if (answerEnds(chunk)) cut()
      return
    }
    answer.push(chunk)
    if (!answerEnds(chunk)) return
    const whole = Buffer.concat(answer)
    answer = []
    client.write(whole.subarray(0, Math.floor(whole.length * cutShare)), cut)
  })
  // A client that has gone away takes back nothing that is still on its way.
  const onClientEnd = (): void => {
    clientEnded = true
    if (state === 'open') server.end()
  }
  const onServerEnd = (): void => {
    if (state !== 'hole') cut()
  }
  client.on('end', onClientEnd)
  client.on('close', onClientEnd)
  server.on('end', onServerEnd)
  server.on('close', onServerEnd)
  client.on('error', () => undefined)
  server.on('error', () => undefined)
  client.setNoDelay(true)
  server.setNoDelay(true)
  return { cut, silence, isStuck: () => state !== 'open', closed: closed.promise }
}

async function listen(server: Server): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
}
