import type { Context } from 'hono'
import { z } from 'zod'

import { STATUSES } from '../core/job.ts'
import type { WaitingFor } from '../store/get.ts'
import type { Job } from '../store/job.ts'

/**
 * A job as JSON text. Fields that it does not have are left out. Payload and result are put in as they are
 * stored: to parse them here would change numbers that JavaScript cannot keep, which only SQL lets in.
 */
export function jobText(job: Job, waitingFor: WaitingFor | null = null): string {
  return objectText({
    id: json(job.id),
    idempotency_key: json(job.idempotencyKey),
    type: json(job.type),
    payload: job.payload,
    status: json(job.status),
    priority: json(job.priority),
    attempts: json(job.attempts),
    max_attempts: json(job.maxAttempts),
    available_at: json(job.availableAt),
    started_at: json(job.startedAt),
    completed_at: json(job.completedAt),
    died_at: json(job.diedAt),
    cancelled_at: json(job.cancelledAt),
    cancel_requested_at: json(job.cancelRequestedAt),
    suspect: json(job.suspect ? true : null),
    last_error: json(job.lastError),
    result: job.result,
    created_at: json(job.createdAt),
    updated_at: json(job.updatedAt),
    waiting_for: json(waitingFor === null ? null : waitingForJson(waitingFor)),
  })
}

/** Answers with JSON text. */
export function answerJson(c: Context, status: 200 | 201, text: string): Response {
  return c.body(text, status, { 'Content-Type': 'application/json' })
}

/** The answer of a change that an operator made. */
export function changedJobText(job: Job): string {
  return objectText({ status: json('ok'), job: jobText(job) })
}

/** The schema of {@link jobText}. */
export function jobSchema(): z.ZodType {
  const instant = () =>
    z.iso.datetime().meta({ description: 'RFC 3339 in UTC, by the clock of the database' })
  const optional = (description: string) => instant().optional().meta({ description })
  return z
    .object({
      id: z.uuid(),
      idempotency_key: z.string(),
      type: z.string(),
      payload: z.unknown().meta({ description: 'Any JSON value, as it was sent' }),
      status: z.enum(STATUSES),
      priority: z.int(),
      attempts: z
        .int()
        .meta({ description: 'Runs begun, crashes included; given back by a release or a snooze' }),
      max_attempts: z.int(),
      available_at: instant(),
      started_at: optional('When its last run began'),
      completed_at: optional('Exactly when completed'),
      died_at: optional('Exactly when dead'),
      cancelled_at: optional('Exactly when cancelled'),
      cancel_requested_at: optional('When an operator asked a running job to stop'),
      suspect: z.literal(true).optional().meta({ description: 'Its last lease ran out, so it runs alone' }),
      last_error: z.string().optional(),
      result: z.unknown().optional().meta({ description: 'What its handler returned' }),
      created_at: instant(),
      updated_at: instant(),
      waiting_for: waitingForSchema().optional(),
    })
    .meta({ id: 'Job' })
}

/** The schema of {@link changedJobText}. */
export function changedJobSchema(): z.ZodType {
  return z.object({ status: z.literal('ok'), job: jobSchema() })
}

function waitingForSchema(): z.ZodType {
  const reasons = [
    z.object({ reason: z.literal('due'), due_in_seconds: z.number() }),
    z.object({ reason: z.literal('paused') }),
    z.object({ reason: z.literal('no_handler') }),
    z.object({
      reason: z.literal('tick'),
      last_tick_age_seconds: z.number().optional().meta({ description: 'Absent when no tick has ended yet' }),
    }),
  ] as const
  return z.discriminatedUnion('reason', reasons).meta({ description: 'Why a pending job does not run yet' })
}

function waitingForJson(waitingFor: WaitingFor): object {
  switch (waitingFor.reason) {
    case 'due':
      return { reason: 'due', due_in_seconds: waitingFor.dueInSeconds }
    case 'tick':
      return { reason: 'tick', last_tick_age_seconds: waitingFor.lastTickAgeSeconds ?? undefined }
    case 'paused':
    case 'no_handler':
      return { reason: waitingFor.reason }
  }
}

function objectText(members: Readonly<Record<string, string | null>>): string {
  const present = Object.entries(members).filter(([, text]) => text !== null)
  return `{${present.map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(',')}}`
}

function json(value: object | string | number | boolean | null): string | null {
  return value === null ? null : JSON.stringify(value)
}
