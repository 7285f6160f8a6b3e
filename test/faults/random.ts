/** Numbers in [0, 1) that a seed determines. */
export type Random = () => number

/** Creates the numbers of a seed, any integer (mulberry32, https://github.com/bryc/code/blob/master/jshash/PRNGs.md). */
export function createRandom(seed: number): Random {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** A seed of its own for each use of a run's seed, so that the timing of one does not shift the numbers of another. */
export function seedFor(seed: number, ...use: readonly (number | string)[]): number {
  // FNV-1a (https://datatracker.ietf.org/doc/draft-eastlake-fnv/)
  let hash = 0x811c9dc5
  for (const char of [seed, ...use].join('/')) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 0x01000193)
  return hash >>> 0
}

/** One of `items`, each as likely as its weight. */
export function pickWeighted<Item>(random: Random, items: readonly (readonly [Item, number])[]): Item {
  let left = random() * items.reduce((sum, [, weight]) => sum + weight, 0)
  for (const [item, weight] of items) {
    left -= weight
    if (left < 0) return item
  }
  const last = items.at(-1)
  if (last === undefined) throw new Error('expected something to pick from, got nothing')
  return last[0]
}

/** One of `items`; undefined when there is none. */
export function pickOne<Item>(random: Random, items: readonly Item[]): Item | undefined {
  return items[Math.floor(random() * items.length)]
}

/** A whole number from `least` to `most`. */
export function between(random: Random, least: number, most: number): number {
  return least + Math.floor(random() * (most - least + 1))
}

/** The same items in another order. */
export function shuffled<Item>(random: Random, items: readonly Item[]): Item[] {
  return items
    .map((item) => ({ item, place: random() }))
    .sort((a, b) => a.place - b.place)
    .map(({ item }) => item)
}
