import { getJob } from '../../store/get.ts'
import { answerJson, jobSchema, jobText } from '../job.ts'
import { jobIdParams, jobNotFound, readJobId } from '../job-id.ts'
import type { Route } from '../route.ts'

/** `GET /jobs/{id}`: one job and, while it is pending, what it waits for. */
export const getJobRoute: Route = {
  method: 'GET',
  path: '/jobs/{id}',
  access: 'enqueue',
  describe: () => ({
    summary: 'Read a job',
    request: { params: jobIdParams() },
    answers: {
      200: { description: 'The job', schema: jobSchema() },
      400: 'invalid_id',
      404: 'job_not_found',
    },
  }),
  async handle(c) {
    const id = readJobId(c)
    const view = await getJob(c.get('sql'), id)
    if (view === undefined) throw jobNotFound(id)
    return answerJson(c, 200, jobText(view.job, view.waitingFor))
  },
}
