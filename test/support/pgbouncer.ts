import { spawn } from 'node:child_process'
import { access, constants, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { createInterface } from 'node:readline'

import { expectFreePort } from '../../scripts/start/port.ts'
import { withScratchFolder } from '../../scripts/workerd/scratch.ts'
import { tether } from '../../scripts/workerd/tether.ts'

/** A PgBouncer in transaction mode on 127.0.0.1, in front of every database of one server. */
export interface PgBouncer {
  readonly port: number
  readonly stop: () => Promise<void>
}

/** The installed program; undefined when there is none. Debian keeps it where not everybody looks. */
export async function findPgBouncer(): Promise<string | undefined> {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin']
  const programs = folders.map((folder) => join(folder, 'pgbouncer'))
  const usable = await Promise.allSettled(programs.map((program) => access(program, constants.X_OK)))
  return programs.find((_program, index) => usable[index]?.status === 'fulfilled')
}

/** Starts it for the one user of a server's URL, and resolves once it listens. It ends with this process. */
export async function startPgBouncer(program: string, server: string): Promise<PgBouncer> {
  const port = await expectFreePort(0)
  // It has read its files once it is up.
  return withScratchFolder(async (folder) => {
    const files = { ini: join(folder, 'pgbouncer.ini'), users: join(folder, 'users.txt') }
    const { username, password } = new URL(server)
    await writeFile(files.users, `"${username}" "${password}"\n`)
    await writeFile(files.ini, configuration(files.users, port, server))
    // It refuses to run as root, and steps down after it has read them.
    const user = process.getuid?.() === 0 ? ['-u', 'nobody'] : []
    const child = spawn(program, [...user, files.ini], { stdio: ['ignore', 'ignore', 'pipe'] })
    const untie = tether(child.pid ?? 0)
    const exited = new Promise<void>((resolve) => child.once('close', () => resolve()))
    void exited.then(untie)
    const lines: string[] = []
    const up = new Promise<true>((resolve) => {
      createInterface({ input: child.stderr }).on('line', (line) => {
        lines.push(line)
        if (line.includes('process up')) resolve(true)
      })
    })
    if ((await Promise.race([up, exited])) !== true) {
      throw new Error(`pgbouncer did not start:\n${lines.join('\n')}`)
    }
    const stop = async () => {
      child.kill('SIGQUIT')
      await exited
    }
    return { port, stop }
  })
}

// Nothing here is for Tidegate's sake: the pooler is as its users would set it up.
function configuration(users: string, port: number, server: string): string {
  const { hostname, port: serverPort } = new URL(server)
  return `
[databases]
* = host=${hostname} port=${serverPort}

[pgbouncer]
pool_mode = transaction
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = ${users}
max_client_conn = 500
default_pool_size = 20
log_connections = 0
log_disconnections = 0
`
}
