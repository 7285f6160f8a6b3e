import type { TestProject } from 'vitest/node'

import { startNeonEndpoint } from './neon-endpoint.ts'

/** The drivers of `npm test`: the two of the product. `npm run test:drivers` has all the ways they are used in. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { postgres: server } = project.getProvidedContext()
  const endpoint = await startNeonEndpoint({ server: server.url })
  project.provide('drivers', [
    { name: 'pg', server, way: { kind: 'pg' } },
    { name: 'neon', server, way: { kind: 'neon', endpoint: endpoint.url } },
  ])
  return async () => endpoint[Symbol.asyncDispose]()
}
