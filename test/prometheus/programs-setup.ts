import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'

import { startPrometheus } from '../support/prometheus.ts'
import { startPushgateway } from '../support/pushgateway.ts'
import { findProgram } from './program.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The programs of this run; undefined where they are not installed. */
    readonly programs: Programs | undefined
  }
}

/** A Pushgateway and the Prometheus that scrapes it, with our alerts loaded; and the checker of its files. */
export interface Programs {
  /** Base URLs. */
  readonly gateway: string
  readonly prometheus: string
  /** The file of the program. */
  readonly promtool: string
}

const shipped = join(import.meta.dirname, '..', '..', 'deploy', 'prometheus')

/**
 * Starts the real programs once for the run. Where one is not installed a line names its Debian package and
 * the tests that need it are skipped; under CI it is an error.
 */
export async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const [gatewayPath, path, promtool] = await Promise.all(
    ['prometheus-pushgateway', 'prometheus', 'promtool'].map(findProgram),
  )
  if (gatewayPath === undefined || path === undefined || promtool === undefined) {
    const packages = gatewayPath === undefined ? 'prometheus-pushgateway prometheus' : 'prometheus'
    const line = `the tests with Prometheus are skipped: expected its programs (Debian: apt-get install ${packages}), found none`
    if (process.env['CI']) throw new Error(line)
    project.vitest.logger.log(line)
    return undefined
  }
  const gateway = await startPushgateway(gatewayPath)
  try {
    const prometheus = await startPrometheus({ path, config: await operatorsConfig(gateway.url) })
    project.provide('programs', { gateway: gateway.url, prometheus: prometheus.url, promtool })
    return async () => {
      await Promise.all([gateway.stop(), prometheus.stop()])
    }
  } catch (error) {
    await gateway.stop()
    throw error
  }
}

/** The files that we ship, adapted as an operator would; it scrapes ten times a second. */
async function operatorsConfig(gateway: string): Promise<string> {
  const config = await readFile(join(shipped, 'scrape.yml'), 'utf8')
  return config
    .replaceAll('15s', '100ms')
    .replace('localhost:9091', new URL(gateway).host)
    .replace('alerts.yml', join(shipped, 'alerts.yml'))
}
