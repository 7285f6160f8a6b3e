/** A server that could not be started, for a reason that its message tells in one sentence: no stack is needed. */
export class PostgresStartError extends Error {
  override readonly name = 'PostgresStartError'
  readonly code = 'postgres_start'
}
