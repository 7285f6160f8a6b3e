/** The requests that one tick may make: on Workers every fetch and every connection counts as a subrequest. */
export interface Budget {
  /** Requests made so far, by handlers and by the tick itself. */
  readonly used: () => number
  /** Whether the tick may begin something new: enough is left for it and for the tick's own end. */
  readonly allowsMore: () => boolean
  /** A fetch for one run. */
  readonly forRun: () => RunFetch
}

/** A `fetch` whose requests count. */
export interface RunFetch {
  readonly fetch: typeof fetch
  /** Whether a request was refused for the budget, ours or the platform's, that other runs have used up too. */
  readonly ranOut: () => boolean
}

/** What a request is refused with when the budget of the tick is used up. */
class BudgetError extends Error {
  override readonly name = 'BudgetError'
}

/** The last settle, the tick's last call, the push and the word that it is over, each on a connection of its own. */
const OWN_END = 4

/** The words of the platform's own refusal (https://developers.cloudflare.com/workers/platform/limits/#subrequests). */
const PLATFORM_REFUSAL = /too many subrequests/i

/**
 * Creates the budget of one tick: at most `most` requests, or as many as the platform allows. `ownRequests` counts
 * those of the tick itself; `send` does the fetching.
 */
export function createBudget(
  most: number | undefined,
  ownRequests: () => number,
  send: typeof fetch,
): Budget {
  let ofHandlers = 0
  let refusedByPlatform = false
  const used = () => ofHandlers + ownRequests()
  const isUsedUp = (reserve: number) => refusedByPlatform || (most !== undefined && used() + reserve > most)

  return {
    used,
    allowsMore: () => !isUsedUp(OWN_END + 1),
    forRun() {
      let ofRun = 0
      let refused = false
      const counted = async (...request: Parameters<typeof fetch>): Promise<Response> => {
        if (isUsedUp(OWN_END)) {
          refused = true
          throw new BudgetError('the requests that this tick may make are used up')
        }
        ofHandlers += 1
        ofRun += 1
        try {
          return await send(...request)
        } catch (error) {
          if (error instanceof Error && PLATFORM_REFUSAL.test(error.message)) {
            refused = true
            refusedByPlatform = true
          }
          throw error
        }
      }
      return {
        fetch: counted,
        // A run that used it up alone would do so in every tick: that is its own failure.
        ranOut: () => refused && ofRun < ofHandlers,
      }
    },
  }
}
