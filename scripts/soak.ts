import { writeFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'

import { hasHeld, reportLines, type Report } from '../test/faults/report.ts'
import { soak } from '../test/faults/soak.ts'

const USAGE = `usage: npm run soak -- [--minutes N] [--seed S] [--jobs N] [--json FILE] [--keep]
  --minutes  how long rounds of load and faults go on, 2 by default; the last drain and check take up to 30 s more
  --seed     an integer: repeats the schedule of faults of an earlier run; random by default
  --jobs     jobs that are enqueued in a minute, as far as the faults let them, 5000 by default
  --json     writes the report to a file too
  --keep     keeps the database and says where it is`

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))

const options = readOptions()
console.log(`seed ${options.seed}`)
const report = await soak({ ...options, print: (line) => console.log(line) })
console.log(`\n${reportLines(report).join('\n')}`)
if (options.json !== undefined) await writeFile(options.json, jsonOf(report))
// Deadlines of faults that have been healed may still be pending.
process.exit(hasHeld(report) ? 0 : 1)

function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        minutes: { type: 'string', default: '2' },
        seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
        jobs: { type: 'string', default: '5000' },
        json: { type: 'string' },
        keep: { type: 'boolean', default: false },
      },
    })
    return {
      minutes: readNumber('minutes', values.minutes, (value) => value > 0),
      seed: readNumber('seed', values.seed, Number.isSafeInteger),
      jobsPerMinute: readNumber('jobs', values.jobs, (value) => value > 0),
      json: values.json,
      keep: values.keep,
    }
  } catch (error) {
    console.error(`soak: ${error instanceof Error ? error.message : String(error)}\n${USAGE}`)
    return process.exit(2)
  }
}

function readNumber(name: string, text: string, isValid: (value: number) => boolean): number {
  const value = Number(text)
  if (text.trim() === '' || !isValid(value))
    throw new Error(`expected a valid --${name}, got ${JSON.stringify(text)}`)
  return value
}

function jsonOf(report: Report): string {
  return JSON.stringify({ seed: options.seed, ...report, faults: Object.fromEntries(report.faults) }, null, 2)
}
