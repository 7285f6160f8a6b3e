import { createWorker } from './create-worker.ts'

/** The Worker of a project without handlers of its own: the built-in jobs. */
export default createWorker({ jobs: [] })
