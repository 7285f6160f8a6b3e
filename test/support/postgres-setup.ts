import type { TestProject } from 'vitest/node'

import { startTestServer, type TestServer } from './test-server.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The run's server, of the newest PostgreSQL. */
    readonly postgres: TestServer
  }
}

/**
 * Starts one server for the whole run. Each project that needs a database names this file, so that a run without
 * them starts none; the first one provides the server to all, through the root.
 */
export async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const root = project.vitest.getRootProject()
  if (root.getProvidedContext().postgres !== undefined) return undefined
  const { stop, ...server } = await startTestServer()
  root.provide('postgres', server)
  return stop
}
