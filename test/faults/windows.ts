// Windows are a tenth of real ones, and everything that a window holds is in proportion, so that many ticks,
// leases and retries fit into a round. Time is real: nobody replaces tidegate.now() here.

/** Milliseconds from the beginning of a tick to its deadline. */
export const WINDOW_MS = 3_000

/** How long a lease outlives the deadline. */
export const LEASE_MARGIN_MS = 1_000

/** How long finished jobs are kept: longer than any key is repeated, short enough that a run of minutes prunes. */
export const RETENTION = { completedSeconds: 45, cancelledSeconds: 45, deadSeconds: 60 } as const
