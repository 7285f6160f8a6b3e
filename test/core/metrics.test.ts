import { describe, expect, it } from 'vitest'

import { renderMetrics } from '../../src/metrics.ts'
import { createPush, groupUrl } from '../../src/push.ts'
import { startReceiver } from '../support/webhook-receiver.ts'

const rows = [
  { name: 'jobs_enqueued_total', type: 't', label: '', value: 5 },
  { name: 'jobs_processed_total', type: 't', label: 'completed', value: 3 },
  { name: 'jobs_processed_total', type: 't', label: 'failed', value: 2 },
  { name: 'jobs_in_flight', type: '', label: '', value: 1 },
  { name: 'ticks_total', type: '', label: 'empty', value: 9 },
  { name: 'job_processing_duration_us', type: 't', label: '0.25', value: 3 },
  { name: 'job_processing_duration_us', type: 't', label: '1', value: 1 },
  { name: 'job_processing_duration_us', type: 't', label: '+Inf', value: 1 },
  { name: 'job_processing_duration_us', type: 't', label: 'sum', value: 301_250_000 },
]

describe('renderMetrics', () => {
  it('renders counters with their labels', async () => {
    const { contentType, body } = await renderMetrics(rows)
    expect(contentType).toBe('text/plain; version=0.0.4; charset=utf-8')
    const lines = body.split('\n')
    expect(lines).toContain('# TYPE jobs_enqueued_total counter')
    expect(lines).toContain('jobs_enqueued_total{type="t"} 5')
    expect(lines).toContain('jobs_processed_total{type="t",result="failed"} 2')
    expect(lines).toContain('jobs_in_flight 1')
    expect(lines).toContain('ticks_total{stopped="empty"} 9')
    expect(body).not.toContain('tidegate_snapshot_sequence')
  })

  it('adds the buckets of a histogram up, and its sum in seconds', async () => {
    const { body } = await renderMetrics(rows)
    const lines = body.split('\n').filter((line) => line.startsWith('job_processing_duration_seconds'))
    expect(lines).toEqual([
      'job_processing_duration_seconds_bucket{le="0.1",type="t"} 0',
      'job_processing_duration_seconds_bucket{le="0.25",type="t"} 3',
      'job_processing_duration_seconds_bucket{le="0.5",type="t"} 3',
      'job_processing_duration_seconds_bucket{le="1",type="t"} 4',
      'job_processing_duration_seconds_bucket{le="2.5",type="t"} 4',
      'job_processing_duration_seconds_bucket{le="5",type="t"} 4',
      'job_processing_duration_seconds_bucket{le="10",type="t"} 4',
      'job_processing_duration_seconds_bucket{le="30",type="t"} 4',
      'job_processing_duration_seconds_bucket{le="60",type="t"} 4',
      'job_processing_duration_seconds_bucket{le="120",type="t"} 4',
      'job_processing_duration_seconds_bucket{le="300",type="t"} 4',
      'job_processing_duration_seconds_bucket{le="+Inf",type="t"} 5',
      'job_processing_duration_seconds_sum{type="t"} 301.25',
      'job_processing_duration_seconds_count{type="t"} 5',
    ])
  })
})

describe('push', () => {
  it.each([
    ['production', 'instance/production'],
    ['a b', 'instance/a%20b'],
    ['a/b', 'instance@base64/YS9i'],
    ['', 'instance@base64/='],
    ['ü/ÿ?', 'instance@base64/w7wvw78_'],
  ])('encodes the grouping value %j', (instance, group) => {
    expect(groupUrl('http://gateway:9091/', instance)).toBe(
      `http://gateway:9091/metrics/job/tidegate/${group}`,
    )
  })

  it('replaces its group with one numbered snapshot', async () => {
    await using gateway = await startReceiver((response) => response.writeHead(200).end())
    const push = createPush({
      url: gateway.origin,
      instance: 'test',
      timeoutMs: 5_000,
      authorization: 'Bearer t0ken',
    })
    await expect(push(7, rows)).resolves.toBeNull()
    expect(gateway.received).toMatchObject([
      {
        method: 'PUT',
        path: '/metrics/job/tidegate/instance/test',
        headers: {
          'content-type': 'text/plain; version=0.0.4; charset=utf-8',
          authorization: 'Bearer t0ken',
        },
        body: expect.stringContaining('tidegate_snapshot_sequence 7') as string,
      },
    ])
  })

  it('says what went wrong and never throws', async () => {
    await using failing = await startReceiver((response) => response.writeHead(500).end('secret detail'))
    await using hanging = await startReceiver(() => undefined)
    const pushTo = (url: string, timeoutMs: number) => createPush({ url, instance: 'i', timeoutMs })(1, rows)
    await expect(pushTo(failing.origin, 5_000)).resolves.toBe('the gateway answered 500')
    await expect(pushTo(hanging.origin, 50)).resolves.toMatch(/^TimeoutError/)
    await expect(pushTo('http://127.0.0.1:1', 5_000)).resolves.toMatch(/fetch failed/)
  })
})
