import { rmSync } from 'node:fs'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { openSoakDatabase } from './database.ts'
import { createDatabaseClock } from './database-clock.ts'
import { startLanes } from './lanes.ts'
import { addRound, emptyReport, type Report } from './report.ts'
import { runRound, type Arena } from './rounds.ts'

/** How long and how hard the system is attacked. */
export interface SoakOptions {
  /** Minutes of rounds; the last drain and check come on top. */
  readonly minutes: number
  /** Determines the schedule of faults, and what each process draws. */
  readonly seed: number
  readonly jobsPerMinute: number
  readonly print: (line: string) => void
  /** Keeps database and journals, and says where. */
  readonly keep: boolean
}

/** Chaos of one round; the last one is cut short, or left out when hardly anything is left of it. */
const CHAOS_MS = 24_000

/** Attacks a system of its own, round by round, and reports what its database says of the guarantees. */
export async function soak(options: SoakOptions): Promise<Report> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-soak-'))
  const removeAtExit = (): void => rmSync(folder, { recursive: true, force: true, maxRetries: 10 })
  process.once('exit', removeAtExit)
  const report = emptyReport()
  try {
    await using running = new AsyncDisposableStack()
    const arena = await openArena(options, folder, running)
    const endsAt = performance.now() + options.minutes * 60_000
    for (let number = 1; ; number += 1) {
      const leftMs = endsAt - performance.now()
      if (leftMs < CHAOS_MS / 4) break
      const chaosMs = Math.min(CHAOS_MS, leftMs)
      const round = await runRound(arena, number, chaosMs)
      addRound(report, round, chaosMs)
      options.print(
        `round ${number}: ${Math.round(chaosMs / 1000)} s of chaos, drained in ${Math.round(round.drainMs / 1000)} s, ` +
          `${round.jobs} jobs, ${round.findings.reduce((sum, { violations }) => sum + violations, 0)} violations`,
      )
      for (const { check, violations, samples } of round.findings) {
        if (violations > 0)
          options.print(`  ${check.guarantee}: ${check.says}: ${JSON.stringify(samples[0])}`)
      }
    }
    return report
  } finally {
    process.off('exit', removeAtExit)
    if (options.keep) options.print(`kept ${folder}`)
    else await rm(folder, { recursive: true, force: true })
  }
}

async function openArena(
  options: SoakOptions,
  folder: string,
  running: AsyncDisposableStack,
): Promise<Arena> {
  const journals = join(folder, 'journals')
  await mkdir(journals)
  const database = await openSoakDatabase(folder)
  running.defer(() => database.close())
  const lanes = await startLanes(database.port)
  running.defer(() => lanes.close())
  return {
    folder: journals,
    database,
    clock: await createDatabaseClock(database.url(database.port)),
    lanes,
    seed: options.seed,
    jobsPerMinute: options.jobsPerMinute,
    print: options.print,
  }
}
