import { execFile } from 'node:child_process'

/** Runs promtool and resolves to what it says on standard error, which is nothing when all is well. Rejects when it fails. */
export function checkWith(promtool: string, parameters: readonly string[], input = ''): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const child = execFile(promtool, parameters, (error, stdout, stderr) => {
    if (error === null) resolve(stderr.trim())
    else reject(new Error(`${stderr}${stdout}`, { cause: error }))
  })
  child.stdin?.end(input)
  return promise
}
