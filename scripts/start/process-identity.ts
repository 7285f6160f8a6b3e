import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** One process, told apart from a later one with the same number by the moment of its birth. */
export interface ProcessIdentity {
  readonly pid: number
  readonly born: string
}

/** The process that has this number now; undefined when none has, or only a zombie. */
export async function identify(pid: number): Promise<ProcessIdentity | undefined> {
  const born = process.platform === 'linux' ? await readBirth(pid) : await askBirth(pid)
  return born === undefined ? undefined : { pid, born }
}

/** Whether exactly this process still runs. */
export async function isRunning({ pid, born }: ProcessIdentity): Promise<boolean> {
  return (await identify(pid))?.born === born
}

// proc(5): after the program's name in brackets, which may hold anything, the state comes first and the start 20th.
async function readBirth(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields[0] === 'Z' ? undefined : fields[19]
}

async function askBirth(pid: number): Promise<string | undefined> {
  const asked = await run('ps', ['-o', 'stat=,lstart=', '-p', String(pid)]).catch(() => undefined)
  const [, state, born] = /^\s*(\S+)\s+(.*\S)/.exec(asked?.stdout ?? '') ?? []
  return state?.startsWith('Z') ? undefined : born
}
