import { expect, test } from 'vitest'

import { createLogger } from '../../src/log.ts'

const read = (lines: readonly string[]) => lines.map((line) => JSON.parse(line) as object)

test('a line is one JSON object with its time, level, event and fields', () => {
  const lines: string[] = []
  createLogger('info', (line) => lines.push(line))
    .with({ job_id: '1' })
    .with({ type: 't' })
    .warn('job lost', { attempt: 2, code: undefined })
  expect(read(lines)).toEqual([
    {
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/) as string,
      level: 'warn',
      event: 'job lost',
      job_id: '1',
      type: 't',
      attempt: 2,
    },
  ])
})

test.each([
  ['debug', 4],
  ['info', 3],
  ['warn', 2],
  ['error', 1],
  ['silent', 0],
] as const)('level %s lets %d of four lines through', (level, count) => {
  const lines: string[] = []
  const log = createLogger(level, (line) => lines.push(line))
  log.debug('a')
  log.info('b')
  log.warn('c')
  log.error('d')
  expect(lines).toHaveLength(count)
})
