import type { Bundle } from './bundle.ts'

const prefix = 'TIDEGATE_BINDING_'

// workerd keeps what a cron handler throws to itself, and what a waitUntil promise rejects with; a tail hears both.
const controlModule = `
export default {
  async fetch(request, env) {
    return Response.json(await env.WORKER.scheduled(await request.json()))
  },
  tail(events) {
    for (const { name, message, stack } of events.flatMap((event) => event.exceptions)) {
      console.error('uncaught ' + name + ': ' + message + '\\n' + stack)
    }
  },
}`

/**
 * The configuration of a workerd that serves a bundle on 127.0.0.1, in Cap'n Proto text. Beside the Worker runs
 * a control service on a port of its own: it fires the cron handler and prints uncaught errors. Module `n` of
 * the bundle is expected in the file `module-<n>` beside the configuration; port 0 is a free one.
 */
export function workerdConfig(bundle: Bundle, names: readonly string[], port: number): string {
  const modules = bundle.modules.map(
    ({ name, kind }, index) => `(name = ${quote(name)}, ${kind} = embed "module-${index}")`,
  )
  const bindings = names.map(
    (name) => `(name = ${quote(name)}, fromEnvironment = ${quote(`${prefix}${name}`)})`,
  )
  return `using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "worker", worker = .worker),
    (name = "control", worker = .control),
    (name = "internet", network = (allow = ["public", "private"], tlsOptions = (trustBrowserCas = true))),
  ],
  sockets = [
    (name = "worker", address = "127.0.0.1:${port}", http = (), service = "worker"),
    (name = "control", address = "127.0.0.1:0", http = (), service = "control"),
  ],
);

const worker :Workerd.Worker = (
  modules = [${modules.join(', ')}],
  compatibilityDate = ${quote(bundle.compatibilityDate)},
  compatibilityFlags = [${bundle.compatibilityFlags.map(quote).join(', ')}],
  bindings = [${bindings.join(', ')}],
  globalOutbound = "internet",
  tails = ["control"],
);

const control :Workerd.Worker = (
  modules = [(name = "control.js", esModule = ${quote(controlModule)})],
  compatibilityDate = ${quote(bundle.compatibilityDate)},
  compatibilityFlags = ["service_binding_extra_handlers"],
  bindings = [(name = "WORKER", service = "worker")],
);
`
}

/** The environment that carries the vars' values to workerd: no file and no command line ever holds them. */
export function workerdEnvironment(vars: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(vars).map(([name, value]) => [`${prefix}${name}`, value]))
}

// Cap'n Proto text knows \x00 where JSON writes \u0000.
function quote(text: string): string {
  return JSON.stringify(text).replaceAll(/\\u00/g, String.raw`\x`)
}
