import type { AnyJob } from '../registry.ts'
import { echo } from './echo.ts'
import type { WebhookTarget } from './webhook-target.ts'
import { webhookJob, type WebhookOptions } from './webhook.ts'

/** The handlers that every root has: `test.echo`, and a webhook for each target of the setting `WEBHOOKS`. */
export function builtinJobs(
  webhooks: ReadonlyMap<string, WebhookTarget> = new Map(),
  options: WebhookOptions = {},
): readonly AnyJob[] {
  return [echo, ...Array.from(webhooks, ([type, target]) => webhookJob(type, target, options))]
}
