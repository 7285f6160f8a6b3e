/** Levels of a log line, least to most urgent. */
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const

/** One of {@link LOG_LEVELS}; `silent` writes nothing. */
export type LogLevel = (typeof LOG_LEVELS)[number]

/** Values that a log line carries. Never payloads, never secrets. */
export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>

/** Writes one JSON line an event: `{ time, level, event, … }`. */
export interface Logger {
  debug(event: string, fields?: LogFields): void
  info(event: string, fields?: LogFields): void
  warn(event: string, fields?: LogFields): void
  error(event: string, fields?: LogFields): void
  /** A logger whose lines carry these fields too. */
  with(fields: LogFields): Logger
}

/** Creates a logger. `write` takes one line without its newline; it defaults to the console. */
export function createLogger(level: LogLevel = 'info', write: (line: string) => void = toConsole): Logger {
  return withFields({}, LOG_LEVELS.indexOf(level), write)
}

function withFields(bound: LogFields, threshold: number, write: (line: string) => void): Logger {
  const at = (level: LogLevel) => (event: string, fields?: LogFields) => {
    if (LOG_LEVELS.indexOf(level) < threshold) return
    write(JSON.stringify({ time: new Date().toISOString(), level, event, ...bound, ...fields }))
  }
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    with: (fields) => withFields({ ...bound, ...fields }, threshold, write),
  }
}

function toConsole(line: string): void {
  // eslint-disable-next-line no-console -- the platform's log is the console
  console.log(line)
}
