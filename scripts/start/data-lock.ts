import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { identify, isRunning, type ProcessIdentity } from './process-identity.ts'

const identitySchema = z.object({ pid: z.number(), born: z.string() })

/** A data folder that is ours until `release`, or until we end, whatever ends us. */
export interface DataLock {
  /** Whether the last one who had it was killed, and may have left something running. */
  readonly wasKilled: boolean
  release(): Promise<void>
}

/**
 * Takes a data folder by the file `start.lock` in it, creating the folder if need be. Throws, naming the
 * process, while another start has it.
 */
export async function lockDataFolder(dataDir: string): Promise<DataLock> {
  await mkdir(dataDir, { recursive: true })
  const file = join(dataDir, 'start.lock')
  const content = await readFile(file, 'utf8').catch(() => undefined)
  const holder = content === undefined ? undefined : readHolder(content)
  if (holder !== undefined && (await isRunning(holder))) throw lockedBy(dataDir, `process ${holder.pid}`)
  await rm(file, { force: true })
  await writeFile(file, JSON.stringify(await identify(process.pid)), { flag: 'wx' }).catch(
    (error: NodeJS.ErrnoException) => {
      throw error.code === 'EEXIST' ? lockedBy(dataDir, 'begun at the same moment') : error
    },
  )
  return { wasKilled: content !== undefined, release: () => rm(file, { force: true }) }
}

// A file without an identity was cut off while it was written: its writer is gone.
function readHolder(content: string): ProcessIdentity | undefined {
  try {
    return identitySchema.parse(JSON.parse(content))
  } catch {
    return undefined
  }
}

function lockedBy(dataDir: string, who: string): Error {
  return new Error(
    `data folder ${dataDir} is in use by another npm start (${who}): stop that one, or set DATA_DIR to another folder`,
  )
}
