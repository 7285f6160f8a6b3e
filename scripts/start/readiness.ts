/** Throws, quoting the Worker, when it does not answer `GET /readyz` with 200. */
export async function expectReady(url: string): Promise<void> {
  const response = await fetch(`${url}/readyz`)
  const body = await response.text()
  if (!response.ok)
    throw new Error(`expected GET /readyz to answer 200, got ${response.status}: ${body.trim()}`)
}
