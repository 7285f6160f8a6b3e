/** What a statement may be given. Arrays and objects travel as JSON text and are cast in the statement. */
export type Param = string | number | boolean | null

/** A row as its driver hands it over. Statements cast every column to text, integer, boolean or json. */
export type Row = Readonly<Record<string, unknown>>

/**
 * The port to the database: one statement, one round trip, one transaction of its own. Rejects with a
 * `DatabaseError` that says whether the statement can have run. There is no session: no operation spans
 * two calls.
 */
export type Sql = (text: string, params: readonly Param[]) => Promise<readonly Row[]>

/** One invocation's way to the database. It connects at the first call, and again after a failure. */
export interface Database {
  readonly sql: Sql
  /** Subrequests so far, as Workers count them: connections over TCP, statements over HTTP. */
  readonly requests: () => number
  /** Ends the connection, if there is one. Never rejects; later calls do. */
  readonly close: () => Promise<void>
}
