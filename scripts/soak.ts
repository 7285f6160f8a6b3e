import { writeFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'

import { hasHeld, reportLines } from '../test/faults/report.ts'
import { soak } from '../test/faults/soak.ts'

const USAGE = `usage: npm run soak -- [--minutes N] [--seed S] [--jobs N] [--json FILE] [--keep]
  --minutes  how long load and faults last, 2 by default; the last drain and check take up to 30 s more
  --seed     an integer: repeats the schedule of faults of an earlier run; random by default
  --jobs     jobs that are enqueued in a minute of chaos, 4000 by default
  --json     writes the report to a file too
  --keep     keeps the database and the journals of the last round`

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))

try {
  process.exitCode = await main()
} catch (error) {
  console.error(`soak: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
  process.exitCode = 2
}
process.exit()

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      minutes: { type: 'string', default: '2' },
      seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
      jobs: { type: 'string', default: '4000' },
      json: { type: 'string' },
      keep: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) {
    console.log(USAGE)
    return 0
  }
  const seed = readNumber('seed', values.seed, (value) => Number.isSafeInteger(value))
  console.log(`seed ${seed}`)
  const report = await soak({
    minutes: readNumber('minutes', values.minutes, (value) => value > 0),
    seed,
    jobsPerMinute: readNumber('jobs', values.jobs, (value) => value > 0),
    print: (line) => console.log(line),
    keep: values.keep,
  })
  console.log(`\n${reportLines(report).join('\n')}`)
  const faults = Object.fromEntries(report.faults)
  if (values.json !== undefined)
    await writeFile(values.json, JSON.stringify({ seed, ...report, faults }, null, 2))
  return hasHeld(report) ? 0 : 1
}

function readNumber(name: string, text: string, isValid: (value: number) => boolean): number {
  const value = Number(text)
  if (text.trim() === '' || !isValid(value))
    throw new Error(`expected a valid --${name}, got ${JSON.stringify(text)}\n${USAGE}`)
  return value
}
