import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'

/** Finds a port on 127.0.0.1 free, any for 0, and returns it. Throws what to do when it is not. */
export async function expectFreePort(wanted: number): Promise<number> {
  const server = createServer().listen(wanted, '127.0.0.1')
  await once(server, 'listening').catch((error: NodeJS.ErrnoException) => {
    const found = error.code === 'EADDRINUSE' ? 'it is taken' : error.message
    throw new Error(`expected port ${wanted} on 127.0.0.1 to be free, ${found}: set PORT to another`, {
      cause: error,
    })
  })
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
