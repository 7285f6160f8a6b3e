import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

import { ask } from '../support/prometheus.ts'
import { readHeadings } from './monitoring-doc.ts'
import { checkWith } from './promtool.ts'
import { programs } from './root.ts'

const { prometheus = '', promtool = '' } = programs ?? {}
const folder = join(import.meta.dirname, '..', '..', 'deploy', 'prometheus')

describe.skipIf(programs === undefined)('the files for Prometheus', () => {
  let own: string
  beforeAll(async () => {
    own = await mkdtemp(join(tmpdir(), 'tidegate-deploy-'))
  })
  afterAll(() => rm(own, { recursive: true, force: true }))

  it('are accepted by promtool', async () => {
    await expect(checkWith(promtool, ['check', 'rules', join(folder, 'alerts.yml')])).resolves.toBe('')
    await expect(checkWith(promtool, ['check', 'config', join(folder, 'scrape.yml')])).resolves.toBe('')
  })

  it('are accepted with the job that is commented out, too', async () => {
    const shipped = await readFile(join(folder, 'scrape.yml'), 'utf8')
    const [before = '', job = ''] = shipped.split(/^(?=  # - job_name: tidegate$)/m)
    expect(job).not.toBe('')
    const token = join(own, 'token')
    await writeFile(token, 'secret')
    const config = join(own, 'prometheus.yml')
    await writeFile(
      config,
      before.replace('alerts.yml', join(folder, 'alerts.yml')) +
        job.replaceAll(/^ {2}# /gm, '  ').replace('/etc/prometheus/tidegate-token', token),
    )
    await expect(checkWith(promtool, ['check', 'config', config])).resolves.toBe('')
    await expect(readFile(config, 'utf8')).resolves.toMatch(/^ {2}- job_name: tidegate\n {4}scheme: https$/m)
  })

  it('raise every alert when they must, and not when they must not', async () => {
    await checkWith(promtool, ['test', 'rules', join(folder, 'alerts.test.yml')])
    const tests = await readFile(join(folder, 'alerts.test.yml'), 'utf8')
    for (const { name } of await alerts()) {
      expect(tests).toMatch(new RegExp(`alertname: ${name}\n +exp_alerts:`))
      expect(tests).toMatch(new RegExp(`alertname: ${name} }`))
    }
  })

  it('tell of every alert how bad it is, what it is, and where to read on', async () => {
    const headings = await readHeadings()
    for (const { name, labels, annotations } of await alerts()) {
      const told = { name, ...labels, ...annotations }
      expect(told).toEqual({
        name,
        severity: expect.stringMatching(/^(critical|warning|info)$/) as string,
        summary: expect.any(String) as string,
        description: expect.any(String) as string,
        runbook: expect.stringMatching(/^docs\/monitoring\.md#/) as string,
      })
      expect(headings).toContain(annotations['runbook']?.split('#')[1])
    }
  })

  interface Alert {
    readonly name: string
    readonly labels: Readonly<Record<string, string>>
    readonly annotations: Readonly<Record<string, string>>
  }

  /** The alerts that the run's Prometheus has loaded from the file. */
  async function alerts(): Promise<readonly Alert[]> {
    const { groups } = await ask<{ groups: readonly { rules: readonly Alert[] }[] }>(prometheus, 'rules')
    const rules = groups.flatMap((group) => group.rules)
    expect(rules).toHaveLength(8)
    return rules
  }
})
