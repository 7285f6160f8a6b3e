import { requeue } from '../../store/operate.ts'
import { HttpError } from '../errors.ts'
import { answerJson, changedJobSchema, changedJobText } from '../job.ts'
import { jobIdParams, jobNotFound, readJobId } from '../job-id.ts'
import type { Route } from '../route.ts'

/** `POST /jobs/{id}/requeue`: makes a dead or cancelled job pending again, due now, with all its attempts. */
export const requeueRoute: Route = {
  method: 'POST',
  path: '/jobs/{id}/requeue',
  access: 'operator',
  describe: () => ({
    summary: 'Requeue a job',
    request: { params: jobIdParams() },
    answers: {
      200: { description: 'The job is pending and due', schema: changedJobSchema() },
      400: 'invalid_id',
      404: 'job_not_found',
      409: 'not_requeueable: the job is neither dead nor cancelled',
    },
  }),
  async handle(c) {
    const id = readJobId(c)
    const requeued = await requeue(c.get('sql'), id, c.get('caller').name)
    switch (requeued.outcome) {
      case 'ok':
        c.get('log').info('job requeued', { job: id })
        return answerJson(c, 200, changedJobText(requeued.job))
      case 'conflict':
        throw notRequeueable(requeued.job.status)
      case 'not_found':
        throw jobNotFound(id)
    }
  },
}

function notRequeueable(status: string): HttpError {
  return new HttpError(409, 'not_requeueable', `expected a dead or cancelled job, got one that is ${status}`)
}
