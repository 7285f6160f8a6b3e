import { renderMetrics } from './metrics.ts'
import type { MetricRow } from './store/metrics.ts'

/** Where metrics are pushed to. */
export interface PushOptions {
  /** Base URL of the Pushgateway. */
  readonly url: string
  /** The grouping value `instance`: one stable group per database. */
  readonly instance: string
  readonly timeoutMs: number
  /** The value of the Authorization header. */
  readonly authorization?: string
  readonly fetch?: typeof fetch
}

/**
 * Creates the function that replaces this database's group on the Pushgateway with one snapshot (`PUT`, see
 * https://github.com/prometheus/pushgateway#put-method). It never rejects and takes no longer than its
 * timeout; it resolves to what went wrong, or null.
 */
export function createPush(
  options: PushOptions,
): (sequence: number, rows: readonly MetricRow[]) => Promise<string | null> {
  const url = groupUrl(options.url, options.instance)
  const send = options.fetch ?? ((input, init) => fetch(input, init))
  return async (sequence, rows) => {
    try {
      const { contentType, body } = await renderMetrics(rows, sequence)
      const response = await send(url, {
        method: 'PUT',
        headers: {
          'content-type': contentType,
          ...(options.authorization === undefined ? {} : { authorization: options.authorization }),
        },
        body,
        signal: AbortSignal.timeout(options.timeoutMs),
      })
      await response.body?.cancel()
      return response.ok ? null : `the gateway answered ${response.status}`
    } catch (error) {
      return error instanceof Error ? `${error.name}: ${error.message}` : 'the push failed'
    }
  }
}

/** The group's URL. A value with a slash, an empty one, and one that a URL takes for a step travel as `@base64` (URL-safe). */
export function groupUrl(base: string, instance: string): string {
  return `${base.replace(/\/+$/, '')}/metrics/job/tidegate/${grouping('instance', instance)}`
}

function grouping(label: string, value: string): string {
  const isPlain = !value.includes('/') && !['', '.', '..'].includes(value)
  if (isPlain) return `${label}/${encodeURIComponent(value)}`
  const encoded = btoa(String.fromCharCode(...new TextEncoder().encode(value)))
  // The gateway reads a single "=" as the empty value.
  return `${label}@base64/${encoded === '' ? '=' : encoded.replaceAll('+', '-').replaceAll('/', '_')}`
}
