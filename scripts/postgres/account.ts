import { execFile, spawn, type ChildProcess, type SpawnOptions } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

import { PostgresStartError } from './error.ts'

const run = promisify(execFile)

/** An operating-system user, by number. */
export interface User {
  readonly uid: number
  readonly gid: number
}

/**
 * As whom the programs of PostgreSQL run. The server refuses to run as root, so root steps down to another
 * user, who keeps root's way past closed folders (`override`) when the clone or its data lie behind one.
 */
export type Account =
  | { readonly kind: 'caller' }
  | { readonly kind: 'user'; readonly user: User }
  | { readonly kind: 'override'; readonly user: User }

/**
 * The account for a data folder and the binaries: the caller, unless that is root. Root becomes the owner of
 * a filled data folder, else `postgres`, else `nobody`. Throws `PostgresStartError` when there is no such user,
 * or when it cannot reach the files and `setpriv` is missing or not allowed.
 */
export async function chooseAccount(binaries: string, dataDir: string): Promise<Account> {
  if (process.getuid?.() !== 0) return { kind: 'caller' }
  const user = (await ownerOf(dataDir)) ?? (await findUser('postgres')) ?? (await findUser('nobody'))
  if (user === undefined) {
    throw new PostgresStartError(
      'postgres does not run as root: expected a user "postgres" or "nobody" to run it as, found neither',
    )
  }
  if (await reaches(user, [join(binaries, 'postgres'), dirname(dataDir)])) return { kind: 'user', user }
  await expectSetpriv(user, binaries, dataDir)
  return { kind: 'override', user }
}

/** Starts a program under an account. */
export function launch(
  account: Account,
  program: string,
  args: readonly string[],
  options: SpawnOptions,
): ChildProcess {
  if (account.kind === 'caller') return spawn(program, args, options)
  if (account.kind === 'user') return spawn(program, args, { ...options, ...account.user })
  return spawn('setpriv', [...setprivArgs(account.user), program, ...args], options)
}

/** Gives files to the account that will run on them. */
export async function giveTo(account: Account, ...paths: readonly string[]): Promise<void> {
  if (account.kind === 'caller') return
  const { uid, gid } = account.user
  await run('chown', ['-R', `${uid}:${gid}`, ...paths])
}

async function ownerOf(dataDir: string): Promise<User | undefined> {
  const version = await stat(join(dataDir, 'PG_VERSION')).catch(() => undefined)
  return version === undefined || version.uid === 0 ? undefined : { uid: version.uid, gid: version.gid }
}

async function findUser(name: string): Promise<User | undefined> {
  try {
    const [uid, gid] = await Promise.all([run('id', ['-u', name]), run('id', ['-g', name])])
    return { uid: Number(uid.stdout), gid: Number(gid.stdout) }
  } catch {
    return undefined
  }
}

// Asked as that user, for only the kernel knows every parent folder's mode.
async function reaches(user: User, paths: readonly string[]): Promise<boolean> {
  const script = 'for path; do test -r "$path" && test -x "$path" || exit 1; done'
  try {
    await run('/bin/sh', ['-c', script, 'sh', ...paths], { ...user, cwd: '/' })
    return true
  } catch {
    return false
  }
}

async function expectSetpriv(user: User, binaries: string, dataDir: string): Promise<void> {
  try {
    await run('setpriv', [...setprivArgs(user), 'true'])
  } catch (error) {
    throw new PostgresStartError(
      `postgres does not run as root, and uid ${user.uid} cannot enter ${binaries} or ${dirname(dataDir)}: ` +
        'expected setpriv (util-linux) to let it in, or folders that others can enter, or a caller that is not root',
      { cause: error },
    )
  }
}

// no_setuid_fixup: postgres looks at its own binary with access(2), which otherwise ignores capabilities of
// anyone but root.
function setprivArgs({ uid, gid }: User): string[] {
  const flags =
    '--clear-groups --inh-caps +dac_override --ambient-caps +dac_override --securebits +no_setuid_fixup'
  return ['--reuid', String(uid), '--regid', String(gid), ...flags.split(' '), '--']
}
