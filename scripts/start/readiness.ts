import { z } from 'zod'

const refusalSchema = z.object({ error: z.string() })

/** Throws, with the Worker's reason, when it does not answer `GET /readyz` with 200. */
export async function expectReady(url: string): Promise<void> {
  const response = await fetch(`${url}/readyz`)
  const body: unknown = await response.json()
  if (!response.ok) throw new Error(`the worker is ${refusalSchema.parse(body).error}`)
}
