import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

const file = join(import.meta.dirname, '..', '..', 'docs', 'monitoring.md')

/** The anchors of docs/monitoring.md, as GitHub makes them of its headings. */
export async function readHeadings(): Promise<readonly string[]> {
  const text = await readFile(file, 'utf8')
  return [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\w -]/g, '')
      .replaceAll(' ', '-'),
  )
}

/** Where docs/monitoring.md links to in itself. */
export async function readOwnLinks(): Promise<readonly string[]> {
  const text = await readFile(file, 'utf8')
  return [...text.matchAll(/\]\(#([^)]+)\)/g)].map(([, anchor = '']) => anchor)
}

/** A row of the table of metrics. */
export interface DocumentedMetric {
  readonly name: string
  readonly type: string
  readonly labels: readonly string[]
  readonly meaning: string
}

/** The table of metrics, in its order. */
export async function readMetricsTable(): Promise<readonly DocumentedMetric[]> {
  const text = await readFile(file, 'utf8')
  const row = /^\| `(\w+)` +\| (counter|gauge|histogram) +\| ([^|]*)\| ([^|]*)\|$/gm
  return [...text.matchAll(row)].map(([, name = '', type = '', labels = '', meaning = '']) => ({
    name,
    type,
    labels: [...labels.matchAll(/`(\w+)`/g)].map(([, label = '']) => label),
    meaning: meaning.trim(),
  }))
}
