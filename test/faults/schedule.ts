import { between, shuffled, type Random } from './random.ts'

/** What is done to the system, and how often each kind stands in the deck that the schedule deals from. */
const DECK = {
  'worker killed': 4,
  'worker stopped beyond its leases': 3,
  'worker told to end': 4,
  'producer killed': 1,
  'backend terminated': 5,
  'all backends terminated': 1,
  'query cancelled': 2,
  'postgres restarted': 1,
  'cut before the statement': 4,
  'cut after the commit': 8,
  'cut half way through the answer': 6,
  'black hole': 5,
  'statement delivered late': 6,
  'all connections cut': 1,
  'network silent': 7,
  'connections refused': 1,
  'rows locked': 4,
} as const

/** A kind of fault. */
export type FaultKind = keyof typeof DECK

/** A fault of the schedule. */
export interface Fault {
  readonly kind: FaultKind
  /** Milliseconds from the beginning of the chaos. */
  readonly atMs: number
  /** In [0, 1): which of the things that are there at that moment it hits. */
  readonly aim: number
  /** In [0, 1): how long it lasts, within what its kind allows. */
  readonly extent: number
}

/**
 * Faults for `lengthMs` of chaos, one every `everyMs` in the mean. Kinds are dealt from a shuffled deck, so
 * that some twenty-five seconds see each of them. The same numbers give the same schedule; what it hits depends
 * on what runs at that moment.
 */
export function planFaults(random: Random, lengthMs: number, everyMs: number): readonly Fault[] {
  const faults: Fault[] = []
  let deck: FaultKind[] = []
  let atMs = everyMs
  while (atMs < lengthMs) {
    if (deck.length === 0) deck = shuffled(random, fullDeck())
    const kind = deck.pop()
    if (kind !== undefined) faults.push({ kind, atMs, aim: random(), extent: random() })
    atMs += between(random, everyMs / 4, (everyMs * 7) / 4)
  }
  return faults
}

function fullDeck(): FaultKind[] {
  return Object.entries(DECK).flatMap(([kind, times]) => Array<FaultKind>(times).fill(kind as FaultKind))
}
