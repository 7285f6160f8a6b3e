// Just enough of Postgres' protocol to know where a statement begins and where its answer ends
// (https://www.postgresql.org/docs/18/protocol-message-formats.html).

const QUERY = 0x51
const PARSE = 0x50
const READY_FOR_QUERY = Buffer.from([0x5a, 0, 0, 0, 5])

/** Whether a chunk from the client begins a statement: the `Query` or `Parse` that `pg` sends in one write. */
export function isStatement(chunk: Buffer): boolean {
  return chunk[0] === QUERY || chunk[0] === PARSE
}

/** Whether a chunk from the server ends an answer; what the statement did is committed by then. */
export function answerEnds(chunk: Buffer): boolean {
  return chunk.length >= 6 && chunk.subarray(-6, -1).equals(READY_FOR_QUERY)
}
