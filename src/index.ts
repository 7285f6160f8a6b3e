/** The package `tidegate`: define jobs, serve them, enqueue them. */
export {
  createClient,
  EnqueueError,
  type Client,
  type ClientOptions,
  type Enqueued,
  type EnqueueOptions,
} from './client.ts'
export type { Backoff } from './core/backoff.ts'
export type { Json } from './core/job.ts'
export { createRoot, type Root, type RootOptions } from './root.ts'
export { createWorker, type Worker, type WorkerOptions } from './create-worker.ts'
export type { Duration } from './duration.ts'
export { PermanentError, RetryAfterError, snooze } from './errors.ts'
export type { LogFields, Logger } from './log.ts'
export {
  defineJob,
  type AnyJob,
  type EnqueueFollowUp,
  type FollowUpOptions,
  type HandlerResult,
  type JobContext,
  type JobDefinition,
} from './registry.ts'
export type { Statement } from './store/enqueue.ts'
