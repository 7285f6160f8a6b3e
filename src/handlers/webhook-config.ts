import { z } from 'zod'

import { LIMITS } from '../core/job.ts'
import type { Issue } from '../payload.ts'
import {
  mismatch,
  SECRET_FORM,
  targetIssues,
  webhookSecretSchema,
  webhookTargetSchema,
  type WebhookTarget,
} from './webhook-target.ts'

/** The targets by job type, or everything that is wrong with them. */
export type WebhookTargetsRead =
  | { readonly ok: true; readonly targets: ReadonlyMap<string, WebhookTarget> }
  | { readonly ok: false; readonly issues: readonly Issue[] }

/**
 * Reads the setting `WEBHOOKS`: JSON text, an object of job type → target. A target's `secret` is the secret
 * itself, `"whsec_…"`, or names the setting that holds it: `{ "env": "INVOICE_SECRET" }`. `settings` are the
 * settings to look in. Paths of issues begin with `WEBHOOKS`; no message shows a URL, header or secret.
 */
export function readWebhookTargets(
  text: string,
  settings: Readonly<Record<string, unknown>>,
): WebhookTargetsRead {
  const setting = parseSetting(text)
  if (setting === undefined) {
    return {
      ok: false,
      issues: [{ path: 'WEBHOOKS', message: 'expected a JSON object of job type → target' }],
    }
  }
  const schema = settingSchema(settings)
  const targets = new Map<string, WebhookTarget>()
  const issues: Issue[] = []
  for (const [type, raw] of Object.entries(setting)) {
    const path = `WEBHOOKS.${type}`
    if (!LIMITS.typePattern.test(type)) {
      issues.push({ path, message: `expected a job type of the form ${LIMITS.typePattern.source}` })
    }
    const target = schema.safeParse(raw)
    if (target.success) targets.set(type, target.data)
    else issues.push(...targetIssues(target.error, path))
  }
  return issues.length === 0 ? { ok: true, targets } : { ok: false, issues }
}

// A parser's own message quotes the text, and with it secrets.
function parseSetting(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined
  } catch {
    return undefined
  }
}

interface SecretReference {
  readonly env: string
}

function isGiven(value: unknown): boolean {
  return typeof value === 'string' || z.strictObject({ env: z.string().regex(NAME) }).safeParse(value).success
}

/** A setting's name. In capitals only, so that a secret in the wrong place is not taken for one and shown. */
const NAME = /^[A-Z][A-Z0-9_]*$/

/** The schema of a target whose secret may stand in another setting. */
function settingSchema(settings: Readonly<Record<string, unknown>>) {
  const error = mismatch(`"${SECRET_FORM}" or { "env": "<NAME of a setting>" }`)
  const secret = z.custom<string | SecretReference>(isGiven, { error }).transform((given, context) => {
    const held = typeof given === 'string' ? given : settings[given.env]
    const checked = webhookSecretSchema.safeParse(held)
    if (checked.success) return checked.data
    const place = typeof given === 'string' ? '' : `the setting ${given.env} to hold `
    context.addIssue({ code: 'custom', message: mismatch(`${place}${SECRET_FORM}`)({ input: held }) })
    return z.NEVER
  })
  return webhookTargetSchema.extend({ secret: secret.optional() })
}
