import { expectFreePort } from '../../scripts/start/port.ts'
import { startProgram } from '../prometheus/program.ts'

/** A Pushgateway on 127.0.0.1 that keeps its groups in memory. */
export interface Pushgateway {
  /** Its base URL, to push to. */
  readonly url: string
  readonly stop: () => Promise<void>
}

/** Starts the real program on a free port, and resolves once it listens. */
export async function startPushgateway(path: string): Promise<Pushgateway> {
  const address = `127.0.0.1:${await expectFreePort(0)}`
  const flags = [`--web.listen-address=${address}`, '--persistence.file=']
  const stop = await startProgram(path, flags, (line) => line.includes('TLS is disabled'))
  return { url: `http://${address}`, stop }
}
