import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { promisify, stripVTControlCharacters } from 'node:util'
import { z } from 'zod'
import { withScratchFolder } from './scratch.ts'

const run = promisify(execFile)
const buildTimeoutMs = 60_000
const repository = join(import.meta.dirname, '..', '..')

/** A Worker as `wrangler deploy` would upload it. Plain data: it can be served any number of times. */
export interface Bundle {
  readonly compatibilityDate: string
  readonly compatibilityFlags: readonly string[]
  /** The `[vars]` of the configuration, as text. Bindings of any other kind are left out. */
  readonly vars: Readonly<Record<string, string>>
  /** The main module first. */
  readonly modules: readonly BundleModule[]
}

/** One file of a bundle. */
export interface BundleModule {
  readonly name: string
  readonly kind: ModuleKind
  readonly content: Uint8Array
}

/** How workerd reads a module, by the field's name in its configuration. */
export type ModuleKind = 'esModule' | 'commonJsModule' | 'text' | 'data' | 'wasm' | 'json'

/** What to bundle. */
export interface BundleOptions {
  /** The Worker's entry file. Defaults to the configuration's `main`. */
  readonly main?: string | undefined
  /** The wrangler configuration. Defaults to this repository's wrangler.toml. */
  readonly config?: string | undefined
}

const kinds: Readonly<Record<string, ModuleKind>> = {
  'application/javascript+module': 'esModule',
  'application/javascript': 'commonJsModule',
  'application/json': 'json',
  'application/octet-stream': 'data',
  'application/wasm': 'wasm',
  'text/plain': 'text',
}

const metadataSchema = z.object({
  main_module: z.string(),
  bindings: z.array(z.looseObject({ name: z.string(), type: z.string() })),
  compatibility_date: z.string(),
  compatibility_flags: z.array(z.string()),
})

/**
 * Builds a Worker with the installed wrangler, without network. Throws with wrangler's own words when the
 * entry file or the configuration is at fault.
 */
export async function bundleWorker(options: BundleOptions = {}): Promise<Bundle> {
  return withScratchFolder(async (folder) => {
    const upload = join(folder, 'upload')
    await runWrangler(options, folder, upload)
    return readUpload(await readFile(upload))
  })
}

async function runWrangler(options: BundleOptions, folder: string, upload: string): Promise<void> {
  const { main, config = join(repository, 'wrangler.toml') } = options
  const files = [...(main === undefined ? [] : [main]), '--config', config, '--outfile', upload]
  const building = run(process.execPath, ['--no-warnings', findWrangler(), 'deploy', '--dry-run', ...files], {
    env: { ...process.env, ...quiet(folder) },
    timeout: buildTimeoutMs,
  })
  const stopAtExit = (): boolean => building.child.kill('SIGKILL')
  process.once('exit', stopAtExit)
  try {
    await building
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
    const words = stripVTControlCharacters(stderr.trim() || stdout.trim())
    throw new Error(`wrangler could not build ${main ?? config}:\n${words}`, { cause: error })
  } finally {
    process.off('exit', stopAtExit)
  }
}

/** The installed wrangler's script. Not its bin, which runs this very file in a child that would survive it. */
export function findWrangler(): string {
  const wrangler = createRequire(import.meta.url).resolve('wrangler/package.json')
  return join(dirname(wrangler), 'wrangler-dist', 'cli.js')
}

// No network, no questions, and nothing written but into our folder.
function quiet(folder: string): Record<string, string> {
  return {
    CI: '1',
    NO_COLOR: '1',
    CLOUDFLARE_LOAD_DEV_VARS_FROM_DOT_ENV: 'false',
    WRANGLER_HIDE_BANNER: 'true',
    WRANGLER_SEND_METRICS: 'false',
    WRANGLER_SEND_ERROR_REPORTS: 'false',
    WRANGLER_WRITE_LOGS: 'false',
    WRANGLER_CACHE_DIR: folder,
    XDG_CONFIG_HOME: folder,
  }
}

async function readUpload(upload: Buffer<ArrayBuffer>): Promise<Bundle> {
  const boundary = upload.subarray(2, upload.indexOf('\r\n')).toString()
  const headers = { 'content-type': `multipart/form-data; boundary=${boundary}` }
  const { metadata, ...files } = Object.fromEntries(await new Response(upload, { headers }).formData())
  const read = metadataSchema.parse(JSON.parse(z.string().parse(metadata)))
  const modules = await Promise.all(Object.values(files).filter(isModule).map(readModule))
  const isMain = (module: BundleModule) => module.name === read.main_module
  return {
    compatibilityDate: read.compatibility_date,
    compatibilityFlags: read.compatibility_flags,
    vars: Object.fromEntries(read.bindings.flatMap(readVar)),
    modules: [...modules.filter(isMain), ...modules.filter((module) => !isMain(module))],
  }
}

function isModule(part: FormDataEntryValue): part is File {
  return typeof part !== 'string' && part.type !== 'application/source-map'
}

async function readModule(file: File): Promise<BundleModule> {
  const kind = kinds[file.type]
  if (kind === undefined)
    throw new Error(`expected a module that workerd knows, got a ${file.type}: ${file.name}`)
  return { name: file.name, kind, content: await file.bytes() }
}

function readVar(binding: Readonly<Record<string, unknown>>): [string, string][] {
  const { name, type, text, json } = binding
  if (type === 'plain_text') return [[String(name), String(text)]]
  return type === 'json' ? [[String(name), JSON.stringify(json)]] : []
}
