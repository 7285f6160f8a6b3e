import { cancel } from '../../store/operate.ts'
import { HttpError } from '../errors.ts'
import { answerJson, changedJobSchema, changedJobText } from '../job.ts'
import { jobIdParams, jobNotFound, readJobId } from '../job-id.ts'
import type { Route } from '../route.ts'

/** `POST /jobs/{id}/cancel`: cancels a pending job, and asks a running one to stop. */
export const cancelRoute: Route = {
  method: 'POST',
  path: '/jobs/{id}/cancel',
  access: 'operator',
  describe: () => ({
    summary: 'Cancel a job',
    description:
      'A running job is marked: if it succeeds nevertheless it is completed, else it is cancelled.',
    request: { params: jobIdParams() },
    answers: {
      200: { description: 'The job is cancelled or marked', schema: changedJobSchema() },
      400: 'invalid_id',
      404: 'job_not_found',
      409: 'not_cancellable: the job is finished',
    },
  }),
  async handle(c) {
    const id = readJobId(c)
    const cancelled = await cancel(c.get('sql'), id)
    switch (cancelled.outcome) {
      case 'ok':
        c.get('log').info('job cancelled', { job: id })
        return answerJson(c, 200, changedJobText(cancelled.job))
      case 'conflict':
        throw notCancellable(cancelled.job.status)
      case 'not_found':
        throw jobNotFound(id)
    }
  },
}

function notCancellable(status: string): HttpError {
  return new HttpError(409, 'not_cancellable', `expected a pending or running job, got one that is ${status}`)
}
