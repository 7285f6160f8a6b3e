import { createWorker, defineJob } from 'tidegate'
import { z } from 'zod'

/** Greets one user. The job's id makes a repeated run harmless at whoever receives it. */
export const greet = defineJob({
  type: 'greet',
  payload: z.object({ name: z.string() }),
  timeout: '5s',
  run({ name }, { id, attempt, log }) {
    log.info('greeting', { greeting_id: id, attempt })
    return { greeting: `Hello, ${name}!` }
  },
})

export default createWorker({ jobs: [greet] })
