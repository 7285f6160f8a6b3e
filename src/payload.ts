import { LIMITS } from './core/job.ts'

/** One thing that is wrong with an input: where, and what was expected. */
export interface Issue {
  /** Dotted, from the root of the input; empty for the input itself. */
  readonly path: string
  readonly message: string
}

/** An input that is not acceptable, with everything that is wrong with it. */
export class InvalidInput extends Error {
  override readonly name = 'InvalidInput'
  readonly issues: readonly Issue[]

  constructor(issues: readonly Issue[]) {
    super(issues.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`)).join('; '))
    this.issues = issues
  }
}

/**
 * Parses JSON text from outside. Refuses text that is not JSON or nests deeper than `maxDepth`. Numbers that
 * JavaScript cannot keep become {@link UNKEEPABLE}, which {@link storabilityIssues} reports with its path.
 */
export function parseJson(text: string, maxDepth: number = LIMITS.payloadDepth + 4): unknown {
  if (depthOf(text) > maxDepth) {
    throw new InvalidInput([{ path: '', message: `expected JSON nested at most ${maxDepth} deep` }])
  }
  try {
    const value: unknown = SUSPECT_NUMBER.test(text) ? JSON.parse(text, keepable) : JSON.parse(text)
    return value
  } catch {
    throw new InvalidInput([{ path: '', message: 'expected JSON, got text that does not parse' }])
  }
}

/** Stands for a number that was too large or too precise for JavaScript. */
const UNKEEPABLE: unique symbol = Symbol('a number that JavaScript cannot keep')

/**
 * What keeps a JSON value from being stored and read back as it was sent: U+0000 and lone surrogates in
 * strings and names, numbers that JavaScript cannot keep, values that are not JSON, nesting beyond 64.
 */
export function storabilityIssues(value: unknown, path: string): readonly Issue[] {
  const issues: Issue[] = []
  collect(value, path, 1, issues)
  return issues
}

/**
 * The JSON text under which a payload is stored. Throws {@link InvalidInput} when it is not JSON, cannot be
 * stored, or is over 256 KiB.
 */
export function payloadText(payload: unknown): string {
  const issues = storabilityIssues(payload, 'payload')
  if (issues.length > 0) throw new InvalidInput(issues)
  const text = JSON.stringify(payload)
  const bytes = new TextEncoder().encode(text).length
  if (bytes > LIMITS.payloadBytes) {
    throw new InvalidInput([
      { path: 'payload', message: `expected at most ${LIMITS.payloadBytes} bytes of JSON, got ${bytes}` },
    ])
  }
  return text
}

/** A long run of digits or a large exponent: only then is the slower parse worth its time. */
const SUSPECT_NUMBER = /\d{16}|[eE][+-]?\d{3}/

function keepable(_key: string, value: unknown, context?: { source?: string }): unknown {
  if (typeof value !== 'number') return value
  if (!Number.isFinite(value)) return UNKEEPABLE
  const isInteger = /^-?\d+$/.test(context?.source ?? String(value))
  return isInteger && !Number.isSafeInteger(value) ? UNKEEPABLE : value
}

/** Deepest nesting of a JSON text, without parsing it: a parser may run out of stack first. */
function depthOf(text: string): number {
  let depth = 0
  let deepest = 0
  let inString = false
  for (let i = 0; i < text.length; i += 1) {
    const char = text.charCodeAt(i)
    if (inString) {
      if (char === 0x5c) i += 1
      else if (char === 0x22) inString = false
    } else if (char === 0x22) inString = true
    else if (char === 0x5b || char === 0x7b) {
      depth += 1
      if (depth > deepest) deepest = depth
    } else if (char === 0x5d || char === 0x7d) depth -= 1
  }
  return deepest
}

function collect(value: unknown, path: string, depth: number, issues: Issue[]): void {
  if (issues.length >= 20) return
  const report = (message: string) => issues.push({ path, message })
  if (value === null || typeof value === 'boolean') return
  if (value === UNKEEPABLE) {
    report('expected a number that a double can keep (finite; integers up to 2^53 - 1), got a larger one')
  } else if (typeof value === 'number') {
    if (!Number.isFinite(value)) report(`expected a finite number, got ${value}`)
  } else if (typeof value === 'string') {
    if (!isStorable(value)) report('expected text without U+0000 and lone surrogates')
  } else if (typeof value !== 'object') {
    report(`expected a JSON value, got ${typeof value}`)
  } else if (depth > LIMITS.payloadDepth) {
    report(`expected nesting of at most ${LIMITS.payloadDepth} levels`)
  } else {
    for (const [key, child] of Object.entries(value)) {
      if (isStorable(key)) collect(child, `${path}.${key}`, depth + 1, issues)
      else report('expected names without U+0000 and lone surrogates')
    }
  }
}

function isStorable(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed()
}
