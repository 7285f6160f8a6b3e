/** One question to the database after a round. */
export interface Check {
  /** The guarantee of DESIGN section 1 that it belongs to. */
  readonly guarantee: Guarantee
  /** What has to hold, as a sentence. */
  readonly says: string
  /** Selects everything that was examined, with columns `ok boolean` and `detail json`. */
  readonly sql: string
}

/** The guarantees, and the lock order on which several of them stand. */
export const GUARANTEES = [
  'G1',
  'G2',
  'G3',
  'G4',
  'G5',
  'G6',
  'G7',
  'G8',
  'G9',
  'G10',
  'G11',
  'locks',
] as const

/** One of {@link GUARANTEES}. */
export type Guarantee = (typeof GUARANTEES)[number]

/** Deadlocks are counted in the server's log, not selected. */
export const LOCK_ORDER: Check = {
  guarantee: 'locks',
  says: 'everybody locks in one order: the server has reported no deadlock',
  sql: '',
}
