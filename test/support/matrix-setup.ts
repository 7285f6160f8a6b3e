import { access } from 'node:fs/promises'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'

import { bundleWorker } from '../../scripts/workerd/bundle.ts'
import { startWorkerd } from '../../scripts/workerd.ts'
import type { DriverPlan } from './drivers.ts'
import { startNeonEndpoint } from './neon-endpoint.ts'
import { findPgBouncer, startPgBouncer } from './pgbouncer.ts'
import { startTestServer, type TestServer } from './test-server.ts'

const OLDEST = '/usr/lib/postgresql/15/bin'
const sqlWorker = join(import.meta.dirname, '..', 'fixtures', 'sql-worker.ts')

/**
 * Every way in which statements reach Postgres: over TCP, through PgBouncer in transaction mode, over Neon's HTTP, and
 * over both from workerd; on the newest PostgreSQL, and over TCP on the oldest. A program that is not installed
 * leaves out its driver, with a line that names its Debian package; under CI it is an error.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { postgres: server } = project.getProvidedContext()
  const running = new AsyncDisposableStack()
  try {
    const others = await Promise.all([
      planOldest(running),
      planPgBouncer(server, running),
      planOverHttp(server, running),
    ])
    const newest: DriverPlan = { name: `pg ${server.version}`, server, way: { kind: 'pg' } }
    project.provide('drivers', [newest, ...others.flat()])
    return () => running.disposeAsync()
  } catch (error) {
    await running.disposeAsync()
    throw error
  }
}

async function planOldest(running: AsyncDisposableStack): Promise<readonly DriverPlan[]> {
  const found = await access(join(OLDEST, 'postgres')).then(
    () => true,
    () => false,
  )
  if (!found) return leaveOut('pg 15', 'postgresql-15', join(OLDEST, 'postgres'))
  const { stop, ...server } = await startTestServer(OLDEST)
  running.defer(stop)
  return [{ name: `pg ${server.version}`, server, way: { kind: 'pg' } }]
}

async function planPgBouncer(
  server: TestServer,
  running: AsyncDisposableStack,
): Promise<readonly DriverPlan[]> {
  const program = await findPgBouncer()
  if (program === undefined) return leaveOut('pgbouncer', 'pgbouncer', 'pgbouncer')
  const { port, stop } = await startPgBouncer(program, server.url)
  running.defer(stop)
  return [{ name: 'pgbouncer', server, way: { kind: 'pg', port: String(port) } }]
}

async function planOverHttp(
  server: TestServer,
  running: AsyncDisposableStack,
): Promise<readonly DriverPlan[]> {
  const { url: endpoint } = running.use(await startNeonEndpoint({ server: server.url }))
  const workerd = await startWorkerd({ bundle: await bundleWorker({ main: sqlWorker }) })
  running.defer(() => workerd.stop())
  const worker = workerd.url
  return [
    { name: 'neon', server, way: { kind: 'neon', endpoint } },
    { name: 'workerd pg', server, way: { kind: 'workerd', worker, driver: 'pg' } },
    { name: 'workerd neon', server, way: { kind: 'workerd', worker, driver: 'neon', endpoint } },
  ]
}

function leaveOut(name: string, debianPackage: string, program: string): readonly DriverPlan[] {
  const line = `${name} is left out: expected ${program} (Debian: apt-get install ${debianPackage}), found none`
  if (process.env['CI']) throw new Error(line)
  console.log(line)
  return []
}
