import { afterEach, beforeEach, describe, expect, it } from 'vitest'

import { openPg } from '../../src/db/pg.ts'
import { createKick } from '../../src/kick.ts'
import type { AnyJob } from '../../src/registry.ts'
import type { TickDependencies, TickOptions } from '../../src/tick-options.ts'
import { moveClock } from '../support/store.ts'
import { interfering, job, openRoot, type Root } from '../support/tick.ts'

describe('kick', () => {
  let root: Root
  beforeEach(async () => {
    root = await openRoot()
  })
  afterEach(() => root.close())

  const echo = job(() => undefined)
  const kickOf = (jobs: readonly AnyJob[] = [echo], extra: Partial<TickDependencies> = {}) =>
    createKick({ windowMs: 20_000, tick: (options: TickOptions) => root.tick(jobs, options, extra) })

  it('runs what is due and is over', async () => {
    const id = await root.put('t')
    await kickOf()()
    await expect(root.job(id)).resolves.toMatchObject({ status: 'completed' })
    await expect(root.db.query('select token, lease_until from tidegate.kick')).resolves.toEqual([
      { token: null, lease_until: null },
    ])
  })

  it('is one at a time: of 200 enqueues at once none is forgotten, and no two kicks overlap', async () => {
    await root.db.query(`
      create function public.one_at_a_time() returns trigger language plpgsql as $$
      begin
        if old.token <> new.token then raise exception 'a kick took over from another'; end if;
        return new;
      end $$;
      create trigger one_at_a_time before update on tidegate.kick
      for each row execute function public.one_at_a_time()`)
    const isolates = Array.from({ length: 20 }, () => kickOf())
    await Promise.all(
      Array.from({ length: 200 }, async (_, n) => {
        await root.put('t')
        await isolates[n % 20]?.()
      }),
    )
    const left = await root.db.query("select from tidegate.jobs where status <> 'completed'")
    expect(left).toEqual([])
    expect(root.logged.filter(({ event }) => event === 'tick failed')).toEqual([])
  })

  it('looks again when an enqueue comes between its last look and its end', async () => {
    let late: string | undefined
    const beforeItsEnd = async () => {
      if (late !== undefined) return
      late = await root.put('t')
      await kickOf()()
    }
    const kick = kickOf([echo], {
      openDatabase: () =>
        interfering(openPg({ url: root.db.url }), async (call, text) => {
          if (text.includes('tidegate.close')) await beforeItsEnd()
          return call()
        }),
    })
    await kick()
    await expect(root.job(late ?? '')).resolves.toMatchObject({ status: 'completed' })
  })

  it('leaves word in memory for a kick of its own process', async () => {
    let late: string | undefined
    const kick: () => Promise<void> = kickOf([
      job(async () => {
        if (late !== undefined) return
        late = await root.put('t', {}, { delayMs: 0 })
        await kick()
      }),
    ])
    await root.put('t')
    await kick()
    await expect(root.job(late ?? '')).resolves.toMatchObject({ status: 'completed' })
  })

  it('is not kept away for ever by one that was cut off', async () => {
    const id = await root.put('t')
    await root.db.query(
      "update tidegate.kick set token = gen_random_uuid(), lease_until = tidegate.now() + interval '25 s'",
    )
    await kickOf()()
    await expect(root.job(id)).resolves.toMatchObject({ status: 'pending', attempts: 0 })
    await moveClock(root.db, 26_000)
    await kickOf()()
    await expect(root.job(id)).resolves.toMatchObject({ status: 'completed' })
  })

  it('hinders no scheduled tick', async () => {
    const id = await root.put('t')
    await root.db.query(
      "update tidegate.kick set token = gen_random_uuid(), lease_until = tidegate.now() + interval '25 s'",
    )
    await root.tick([echo])
    await expect(root.job(id)).resolves.toMatchObject({ status: 'completed' })
  })

  it('never rejects, whatever the database does', async () => {
    const openDatabase = () => openPg({ url: 'postgres://nobody@127.0.0.1:1/none' })
    const short = createKick({
      windowMs: 200,
      tick: (options) => root.tick([echo], options, { openDatabase }),
    })
    await expect(short()).resolves.toBeUndefined()
  })
})
