import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'

import { stopLeftServer } from '../../scripts/start/left-server.ts'
import { runStart, stillRunning, type Start } from '../support/start.ts'

interface Job {
  readonly id: string
  readonly status: string
}

const patience = { timeout: 10_000, interval: 50 }

/** What a printed curl line would send. */
function readCurl(line: string): () => Promise<Response> {
  const url = /http:\S+/.exec(line)?.[0] ?? ''
  const headers = Array.from(
    line.matchAll(/-H ["'](\S+): ([^"']+)["']/g),
    ([, name = '', value = '']): [string, string] => [name, value],
  )
  const body = /-d '(.*)'$/.exec(line)?.[1] ?? ''
  return () => fetch(url, { method: 'POST', headers, body })
}

const send = async (line: string | undefined): Promise<Response> => readCurl(line ?? '')()
const curls = ({ lines }: Start) => lines.filter((line) => line.startsWith('  curl '))

describe('npm start', () => {
  let root: string
  let settings: { DATA_DIR: string; PORT: string; TICK_EVERY_MS: string }
  let start: Start
  let url: string
  const echo: { id?: string } = {}

  const startAgain = async (): Promise<void> => {
    start = runStart(settings)
    url = /http:\S+/.exec(await start.line(/tidegate is ready/))?.[0] ?? ''
    settings.PORT = new URL(url).port
    await start.line(/in production it is every minute/)
  }

  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), 'tidegate-start-'))
    settings = { DATA_DIR: join(root, 'data'), PORT: '0', TICK_EVERY_MS: '100' }
    await startAgain()
  })
  afterAll(async () => {
    start.kill('SIGINT')
    await start.exited
    await stopLeftServer(join(settings.DATA_DIR, 'postgres'))
    await rm(root, { recursive: true, force: true })
  })

  it('prints three requests that work, and runs their jobs', async () => {
    const [first, again, webhook] = curls(start)
    const created = await send(first)
    const { id } = (await created.json()) as Job
    expect(created.status).toBe(201)
    await start.line(new RegExp(`"job completed".*${id}`))
    const repeated = await send(again)
    expect(repeated.status).toBe(200)
    await expect(repeated.json()).resolves.toMatchObject({
      id,
      status: 'completed',
      result: { msg: 'hello' },
    })
    echo.id = id
    const { id: webhookId } = (await (await send(webhook)).json()) as Job
    await start.line(/webhook received: .*signature ok/)
    await start.line(new RegExp(`"job completed".*${webhookId}`))
  })

  it('keeps its tokens in a file that only its owner can read', async () => {
    expect((await stat(join(settings.DATA_DIR, 'tokens.json'))).mode & 0o777).toBe(0o600)
  })

  it.each([
    ['a port that is taken', () => ({ DATA_DIR: join(root, 'other') }), /port \d+ .* is taken/],
    ['a data folder in use', () => ({ PORT: '0' }), /in use by another npm start \(process \d+\)/],
    [
      'a database that cannot be reached',
      () => ({ DATA_DIR: join(root, 'other'), PORT: '0', DATABASE_URL: 'postgres://me:pw@127.0.0.1:1/db' }),
      /could not connect .*127\.0\.0\.1:1/,
    ],
    [
      'a setting that the Worker refuses',
      () => ({ DATA_DIR: join(root, 'third'), PORT: '0', LOG_LEVEL: 'loud' }),
      /LOG_LEVEL/,
    ],
    ['a setting of its own that is none', () => ({ PORT: 'x' }), /PORT: expected a whole number/],
  ])('refuses %s in one sentence', async (_, changes, sentence) => {
    const refused = runStart({ ...settings, ...changes() })
    await expect(refused.exited).resolves.toBe(1)
    expect(refused.lines.filter((line) => line.startsWith('npm start: '))).toEqual([
      expect.stringMatching(sentence),
    ])
    expect(refused.lines.join('\n')).not.toMatch(/^ {4}at /m)
  })

  it('starts workerd again when it is killed, and when it no longer answers', async () => {
    const killed = await start.child(/workerd serve/)
    process.kill(killed.pid, 'SIGKILL')
    await start.line(/workerd ended with signal SIGKILL: starting it again/)
    await vi.waitFor(async () => expect((await fetch(`${url}/readyz`)).status).toBe(200), patience)
    const frozen = await start.child(/workerd serve/)
    expect(frozen.pid).not.toBe(killed.pid)
    process.kill(frozen.pid, 'SIGSTOP')
    await start.line(/workerd did not answer GET \/healthz for 5000 ms: starting it again/)
    await vi.waitFor(async () => expect((await fetch(`${url}/readyz`)).status).toBe(200), patience)
  })

  it('stops everything at Ctrl-C, sent twice as npm does, and goes on with the same data', async () => {
    const children = await start.children()
    expect(children.length).toBeGreaterThanOrEqual(2)
    // Of another kind, for the kernel makes one of two equal signals.
    start.kill('SIGINT')
    start.kill('SIGTERM')
    await expect(start.exited).resolves.toBe(0)
    await expect(stillRunning(children)).resolves.toEqual([])
    await startAgain()
    const repeated = await send(curls(start)[0])
    await expect(repeated.json()).resolves.toMatchObject({ id: echo.id, status: 'completed' })
  })

  it('takes workerd along when it is killed, and the next start stops the postgres that it left', async () => {
    const children = await start.children()
    const postgres = children.filter(({ command }) => command.includes('postgres'))
    expect(postgres).toHaveLength(1)
    start.kill('SIGKILL')
    await start.exited
    await vi.waitFor(async () => expect(await stillRunning(children)).toEqual(postgres), patience)
    await startAgain()
    await start.line(new RegExp(`stopped postgres \\(process ${postgres[0]?.pid}\\)`))
    await expect(stillRunning(postgres)).resolves.toEqual([])
    await expect((await send(curls(start)[0])).json()).resolves.toMatchObject({ id: echo.id })
  })

  it('says so when postgres ends, and stops', async () => {
    const children = await start.children()
    process.kill((await start.child(/postgres -D/)).pid, 'SIGKILL')
    await expect(start.exited).resolves.toBe(1)
    expect(start.lines.at(-1)).toMatch(/postgres ended with signal SIGKILL/)
    await expect(stillRunning(children)).resolves.toEqual([])
  })
})
