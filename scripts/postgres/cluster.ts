import { randomBytes } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'

import { giveTo, launch, type Account } from './account.ts'
import { PostgresStartError } from './error.ts'
import { isAlive } from './pidfile.ts'

/** The only role of a new data folder, a superuser. */
export const superuser = 'tidegate'

/** A data folder, the programs that work on it, and the user that they run as. */
export interface Cluster {
  readonly dataDir: string
  readonly binaries: string
  readonly account: Account
}

/**
 * Makes a data folder fit to start on, and returns the superuser's password. An empty or missing folder is
 * filled by initdb under another name and then renamed, so that a crash never leaves half of one. The
 * password stands in `<dataDir>.password`, mode 0600. Throws `PostgresStartError` when the folder holds
 * something else, belongs to someone else, or has lost its password.
 */
export async function prepareCluster(cluster: Cluster, options: readonly string[]): Promise<string> {
  const { account, dataDir } = cluster
  const passwordFile = `${dataDir}.password`
  if (await isEmpty(dataDir)) {
    await createPassword(passwordFile)
    await giveTo(account, passwordFile)
    await createCluster(cluster, ['--pwfile', passwordFile, ...options])
  }
  await expectCluster(cluster)
  return readPassword(passwordFile)
}

/** The last lines of a text, where PostgreSQL's programs say why they gave up. */
export function lastLines(text: string): string {
  return text.trim().split('\n').slice(-8).join('\n')
}

async function isEmpty(dataDir: string): Promise<boolean> {
  const entries = await readdir(dataDir).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw new PostgresStartError(`could not read the data folder: ${error.message}`, { cause: error })
  })
  return entries.length === 0
}

// Two first starts at once share the file that was there first, so it fits whichever folder wins.
async function createPassword(file: string): Promise<void> {
  await writeFile(file, randomBytes(24).toString('base64url'), { mode: 0o600, flag: 'wx' }).catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    },
  )
}

async function createCluster(cluster: Cluster, options: readonly string[]): Promise<void> {
  const { account, dataDir } = cluster
  await removeUnfinished(dataDir)
  const unfinished = `${dataDir}.init-${process.pid}`
  try {
    await mkdir(unfinished)
    await giveTo(account, unfinished)
    await initdb(cluster, ['--pgdata', unfinished, ...options])
    await rename(unfinished, dataDir)
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true })
    throw new PostgresStartError(`could not create the data folder ${dataDir}: ${messageOf(error)}`, {
      cause: error,
    })
  }
}

async function removeUnfinished(dataDir: string): Promise<void> {
  const prefix = `${basename(dataDir)}.init-`
  for (const name of await readdir(dirname(dataDir))) {
    if (!name.startsWith(prefix)) continue
    const pid = Number(name.slice(prefix.length))
    if (pid !== process.pid && isAlive(pid)) continue
    await rm(join(dirname(dataDir), name), { recursive: true, force: true, maxRetries: 5 })
  }
}

async function initdb({ account, binaries }: Cluster, options: readonly string[]): Promise<void> {
  const layout = ['--encoding=UTF8', '--locale=C', '--auth=scram-sha-256', '--no-instructions']
  const child = launch(account, join(binaries, 'initdb'), ['-U', superuser, ...layout, ...options], {
    cwd: binaries,
    env: { ...process.env, LC_ALL: 'C' },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let stderr = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  const code = await new Promise((resolve, reject) => child.once('error', reject).once('close', resolve))
  if (code !== 0) throw new Error(lastLines(stderr))
}

async function expectCluster({ account, dataDir }: Cluster): Promise<void> {
  const version = await stat(join(dataDir, 'PG_VERSION')).catch(() => undefined)
  if (version === undefined) {
    throw new PostgresStartError(
      `expected ${dataDir} to be empty or a data folder of postgres, found other files`,
    )
  }
  if (account.kind !== 'caller') return giveTo(account, dataDir)
  const uid = process.getuid?.() ?? version.uid
  if (version.uid !== uid) {
    throw new PostgresStartError(`expected ${dataDir} to belong to uid ${uid}, got uid ${version.uid}`)
  }
}

async function readPassword(file: string): Promise<string> {
  const password = await readFile(file, 'utf8').catch((error: unknown) => {
    throw new PostgresStartError(`expected the password of the data folder: ${messageOf(error)}`, {
      cause: error,
    })
  })
  return password.trim()
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
