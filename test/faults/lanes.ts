import { CREWS, type Crew } from './crews.ts'
import { startProxy, type Proxy } from './proxy.ts'

/** The ways to the database: one proxy for each crew, so that a fault of the network hits one and not all. */
export interface Lanes {
  readonly of: (crew: Crew) => Proxy
  /** The lane that `aim` in [0, 1) says: a worker's or the producer's. */
  readonly at: (aim: number) => Proxy
  readonly all: readonly Proxy[]
  readonly close: () => Promise<void>
}

/** Workers and producers are hit equally often. */
const WEIGHT = { worker: 1, producer: 2, foreign: 0 } as const

/** Starts the proxies in front of the server on this port. */
export async function startLanes(targetPort: number): Promise<Lanes> {
  const proxies = new Map<Crew, Proxy>()
  for (const crew of CREWS) proxies.set(crew, await startProxy(targetPort))
  const of = (crew: Crew): Proxy => {
    const proxy = proxies.get(crew)
    if (proxy === undefined) throw new Error(`expected a crew with a lane, got ${crew.name}`)
    return proxy
  }
  const targets = CREWS.flatMap((crew) => Array<Proxy>(WEIGHT[crew.role]).fill(of(crew)))
  const all = [...proxies.values()]
  return {
    of,
    at: (aim) => targets[Math.floor(aim * targets.length)] ?? of(CREWS[0]),
    all,
    close: async () => void (await Promise.all(all.map((proxy) => proxy.close()))),
  }
}
