import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, vi } from 'vitest'

import { expectFreePort } from '../../scripts/start/port.ts'
import { startProgram } from '../prometheus/program.ts'

/** A running Prometheus. */
export interface Prometheus {
  readonly url: string
  readonly stop: () => Promise<void>
}

/** A Prometheus to be started: its program and its configuration. */
export interface PrometheusPlan {
  readonly path: string
  readonly config: string
}

/** One series of an answer, with its latest value. */
export interface Sample {
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** Starts the real program on a free port, and resolves once it answers queries. */
export async function startPrometheus({ path, config }: PrometheusPlan): Promise<Prometheus> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-prometheus-'))
  const file = join(folder, 'prometheus.yml')
  await writeFile(file, config)
  const address = `127.0.0.1:${await expectFreePort(0)}`
  const flags = [
    `--config.file=${file}`,
    `--storage.tsdb.path=${join(folder, 'data')}`,
    `--web.listen-address=${address}`,
  ]
  const stop = await startProgram(path, flags, (line) => line.includes('Server is ready'))
  return {
    url: `http://${address}`,
    async stop() {
      await stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** What an instant query answers now, a vector or one scalar. Rejects with what Prometheus says of a query that it refuses. */
export async function query(prometheus: string, expression: string): Promise<readonly Sample[]> {
  const { resultType, result } = await ask<VectorAnswer | ScalarAnswer>(prometheus, 'query', {
    query: expression,
  })
  return resultType === 'vector'
    ? result.map(({ metric, value }) => ({ labels: metric, value: Number(value[1]) }))
    : [{ labels: {}, value: Number(result[1]) }]
}

/** One call of the HTTP API, https://prometheus.io/docs/prometheus/latest/querying/api/. */
export async function ask<Data>(
  prometheus: string,
  path: string,
  parameters: Record<string, string> = {},
): Promise<Data> {
  const search = new URLSearchParams(parameters)
  const response = await fetch(`${prometheus}/api/v1/${path}?${search.toString()}`)
  const answer = (await response.json()) as { status: string; data: Data; error?: string }
  if (answer.status !== 'success') throw new Error(`${answer.error}, asked for ${search.toString()}`)
  return answer.data
}

/** Waits until the last scrape has seen the snapshot of this number, neither an earlier nor a later one. */
export async function scraped(prometheus: string, instance: string, sequence: number): Promise<void> {
  await poll(async () => {
    const [seen] = await query(prometheus, `tidegate_snapshot_sequence{instance="${instance}"}`)
    expect(seen?.value).toBe(sequence)
  })
}

/** Asks again and again until the expectations hold. Only the failure of a test takes the whole time. */
export async function poll(expectations: () => Promise<void>): Promise<void> {
  await vi.waitFor(expectations, { timeout: 20_000, interval: 50 })
}

interface VectorAnswer {
  readonly resultType: 'vector'
  readonly result: readonly { readonly metric: Record<string, string>; readonly value: [number, string] }[]
}

interface ScalarAnswer {
  readonly resultType: 'scalar'
  readonly result: [number, string]
}
