import { rmSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Lends a temporary folder, which is gone when `use` has settled or when this process exits before. */
export async function withScratchFolder<Result>(use: (folder: string) => Promise<Result>): Promise<Result> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-'))
  const removeAtExit = (): void => rmSync(folder, { recursive: true, force: true })
  process.once('exit', removeAtExit)
  try {
    return await use(folder)
  } finally {
    process.off('exit', removeAtExit)
    await rm(folder, { recursive: true, force: true })
  }
}
