import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

import { bundleWorker, type Bundle } from '../../scripts/workerd/bundle.ts'

const run = promisify(execFile)
const repository = join(import.meta.dirname, '..', '..')

/** Builds an example as its user would: on its own, with the packed package installed beside its dependencies. */
export async function bundleExample(name: string): Promise<Bundle> {
  const project = await mkdtemp(join(tmpdir(), 'tidegate-example-'))
  try {
    await cp(join(repository, 'examples', name), project, { recursive: true })
    await installDependencies(join(project, 'node_modules'))
    await installPackage(project)
    return await bundleWorker({ main: join(project, 'worker.ts'), config: join(project, 'wrangler.toml') })
  } finally {
    await rm(project, { recursive: true, force: true })
  }
}

async function installDependencies(modules: string): Promise<void> {
  await mkdir(modules)
  const names = await readdir(join(repository, 'node_modules'))
  await Promise.all(
    names
      .filter((name) => !name.startsWith('.') && name !== 'tidegate')
      .map((name) => symlink(join(repository, 'node_modules', name), join(modules, name))),
  )
}

async function installPackage(project: string): Promise<void> {
  const options = { cwd: repository, env: { ...process.env, npm_config_loglevel: 'error' } }
  const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', project], options)
  const [packed] = JSON.parse(stdout.slice(stdout.indexOf('['))) as { filename: string }[]
  await mkdir(join(project, 'node_modules', 'tidegate'))
  const target = join(project, 'node_modules', 'tidegate')
  await run('tar', ['-xzf', join(project, packed?.filename ?? ''), '-C', target, '--strip-components=1'])
}
