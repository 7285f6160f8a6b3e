/** A place among the child processes, which one process after the other takes. */
export interface Crew {
  readonly name: string
  readonly role: 'worker' | 'foreign' | 'producer'
  /** Ticks at a time. */
  readonly loops: number
  /** Whether it runs jobs that end its process. */
  readonly poison: boolean
}

/**
 * All crews. A job that kills its process does so with everything in it, so only a worker of one tick at a time
 * runs these: the guarantee about neighbours is about a tick.
 */
export const CREWS = [
  { name: 'pair-1', role: 'worker', loops: 2, poison: false },
  { name: 'pair-2', role: 'worker', loops: 2, poison: false },
  { name: 'solo-1', role: 'worker', loops: 1, poison: true },
  { name: 'solo-2', role: 'worker', loops: 1, poison: true },
  { name: 'foreign-1', role: 'foreign', loops: 1, poison: false },
  { name: 'foreign-2', role: 'foreign', loops: 1, poison: true },
  { name: 'producer-1', role: 'producer', loops: 1, poison: false },
  { name: 'producer-2', role: 'producer', loops: 1, poison: false },
] as const satisfies readonly Crew[]
