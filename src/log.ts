import pino from 'pino/browser.js'

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
  const logger = pino({
    level,
    messageKey: 'event',
    timestamp: pino.stdTimeFunctions.isoTime,
    browser: {
      asObject: true,
      formatters: { level: (label) => ({ level: label }) },
      write: (line) => write(lineText(line)),
    },
  })
  return wrap(logger)
}

/** What happened stands first, for people read these lines too. */
function lineText(line: object): string {
  const { time, level, event, ...fields } = line as Record<string, unknown>
  return JSON.stringify({ time, level, event, ...fields })
}

type Wrapped = Pick<pino.Logger, Exclude<LogLevel, 'silent'> | 'child'>

function wrap(logger: Wrapped): Logger {
  return {
    debug: (event, fields = {}) => logger.debug(fields, event),
    info: (event, fields = {}) => logger.info(fields, event),
    warn: (event, fields = {}) => logger.warn(fields, event),
    error: (event, fields = {}) => logger.error(fields, event),
    with: (fields) => wrap(logger.child(fields)),
  }
}

function toConsole(line: string): void {
  // eslint-disable-next-line no-console -- the platform's log is the console
  console.log(line)
}
