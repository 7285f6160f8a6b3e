import type { Reporter, TestCase, TestModule, Vitest } from 'vitest/node'

const MARKS = { passed: 'ok', failed: 'FAILED', skipped: 'skipped', pending: 'not run' } as const

/** Prints, when the run has ended, which case each driver has passed: a row a case, a column a driver. */
export function driverTable(): Reporter {
  let vitest: Vitest | undefined
  return {
    onInit(running) {
      vitest = running
    },
    onTestRunEnd(modules) {
      const plans = vitest?.getRootProject().getProvidedContext().drivers ?? []
      for (const line of table(
        modules,
        plans.map(({ name }) => name),
      ))
        console.log(line)
    },
  }
}

function table(modules: readonly TestModule[], drivers: readonly string[]): readonly string[] {
  const cases = modules.flatMap((module) => [...module.children.allTests()]).flatMap(readCase)
  const known = cases.filter(({ driver }) => drivers.includes(driver))
  const names = [...new Set(known.map(({ name }) => name))]
  const marks = new Map(known.map(({ name, driver, mark }) => [`${name} over ${driver}`, mark]))
  const rows = [
    ['case', ...drivers],
    ...names.map((name) => [name, ...drivers.map((driver) => marks.get(`${name} over ${driver}`) ?? '–')]),
    [`${names.length} cases`, ...drivers.map((driver) => passed(known, driver))],
  ]
  return ['', ...aligned(rows), ...notes(known)]
}

interface Case {
  readonly name: string
  readonly driver: string
  readonly mark: string
  readonly note: string | undefined
}

/** A case of a suite that is called `<what> over <driver>`. */
function readCase(test: TestCase): readonly Case[] {
  const [suite, ...rest] = test.fullName.split(' > ')
  const [, what, driver] = /^(.*) over (.*)$/.exec(suite ?? '') ?? []
  if (what === undefined || driver === undefined) return []
  const result = test.result()
  const note = result.state === 'skipped' ? result.note : undefined
  return [{ name: [what, ...rest].join(': '), driver, mark: MARKS[result.state], note }]
}

function passed(cases: readonly Case[], driver: string): string {
  return `${cases.filter((one) => one.driver === driver && one.mark === MARKS.passed).length} ok`
}

function notes(cases: readonly Case[]): readonly string[] {
  return cases.flatMap(({ name, driver, note }) =>
    note === undefined ? [] : [`${driver} skips "${name}": ${note}`],
  )
}

function aligned(rows: readonly (readonly string[])[]): readonly string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  const line = (row: readonly string[]) =>
    `| ${row.map((text, n) => text.padEnd(widths[n] ?? 0)).join(' | ')} |`
  const rule = `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`
  const [head = [], ...body] = rows
  return [line(head), rule, ...body.map(line)]
}
