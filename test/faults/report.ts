import { GUARANTEES, type Guarantee } from './checks/check.ts'
import type { Finding } from './checks/run.ts'
import type { Round } from './rounds.ts'

/** What a check found in all rounds. */
export interface Total {
  readonly guarantee: Guarantee
  readonly says: string
  examined: number
  violations: number
  samples: object[]
}

/** What a run came to. */
export interface Report {
  readonly checks: Total[]
  readonly faults: Map<string, number>
  rounds: number
  chaosMs: number
  jobs: number
  runs: number
  ticks: number
}

/** A report of no rounds. */
export function emptyReport(): Report {
  return { checks: [], faults: new Map(), rounds: 0, chaosMs: 0, jobs: 0, runs: 0, ticks: 0 }
}

/** Adds a round to a report. */
export function addRound(report: Report, round: Round, chaosMs: number): void {
  report.rounds += 1
  report.chaosMs += chaosMs
  report.jobs += round.jobs
  report.runs += round.runs
  report.ticks += round.ticks
  for (const [kind, count] of round.faults) report.faults.set(kind, (report.faults.get(kind) ?? 0) + count)
  for (const finding of round.findings) addFinding(report, finding)
}

function addFinding(report: Report, { check, examined, violations, samples }: Finding): void {
  const { guarantee, says } = check
  let total = report.checks.find((total) => total.says === says)
  if (total === undefined) {
    total = { guarantee, says, examined: 0, violations: 0, samples: [] }
    report.checks.push(total)
  }
  total.examined += examined
  total.violations += violations
  total.samples = [...total.samples, ...samples].slice(0, 5)
}

/** Whether every guarantee was examined and held. */
export function hasHeld({ checks }: Report): boolean {
  return (
    checks.every(({ violations }) => violations === 0) &&
    GUARANTEES.every((guarantee) =>
      checks.some((check) => check.guarantee === guarantee && check.examined > 0),
    )
  )
}

/** Checks that found violations, and those that examined nothing and so prove nothing. */
function problems({ checks }: Report): readonly Total[] {
  return checks.filter(({ examined, violations }) => violations > 0 || examined === 0)
}

/** The report as lines of text: every guarantee, what was found against it, and what the system went through. */
export function reportLines(report: Report): readonly string[] {
  return [
    'guarantee      checks  violations',
    ...GUARANTEES.map((guarantee) => guaranteeLine(report, guarantee)),
    '',
    ...problems(report).flatMap(problemLines),
    `${(report.chaosMs / 60_000).toFixed(1)} minutes of chaos in ${report.rounds} rounds: ` +
      `${report.jobs} jobs, ${report.runs} runs, ${report.ticks} ticks, ${sum(report.faults.values())} faults`,
    ...[...report.faults].sort(byKind).map(([kind, count]) => `  ${String(count).padStart(5)}  ${kind}`),
  ]
}

function guaranteeLine({ checks }: Report, guarantee: Guarantee): string {
  const own = checks.filter((check) => check.guarantee === guarantee)
  const examined = sum(own.map((check) => check.examined))
  const violations = sum(own.map((check) => check.violations))
  return `${guarantee.padEnd(9)} ${String(examined).padStart(11)} ${String(violations).padStart(11)}`
}

function problemLines({ guarantee, says, examined, violations, samples }: Total): readonly string[] {
  const what = examined === 0 ? 'examined nothing' : `${violations} of ${examined} violate it`
  return [`${guarantee}: ${says}: ${what}`, ...samples.map((sample) => `    ${JSON.stringify(sample)}`), '']
}

function sum(values: Iterable<number>): number {
  return [...values].reduce((total, value) => total + value, 0)
}

function byKind([a]: readonly [string, number], [b]: readonly [string, number]): number {
  return a.localeCompare(b)
}
