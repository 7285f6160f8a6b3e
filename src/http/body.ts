import { InvalidInput, parseJson } from '../payload.ts'
import { HttpError } from './errors.ts'

/** The largest body that is read, in bytes. */
const BODY_BYTES = 1_048_576

/**
 * Reads a body of JSON. Refuses with 415 what is not `application/json`, with 413 what is over 1 MiB –
 * by its `Content-Length`, and by its bytes, of which it reads no more –, and with 400 what does not parse.
 */
export async function readJson(request: Request): Promise<unknown> {
  expectJson(request)
  return parsed(await readText(request))
}

/** Like {@link readJson}, but undefined without a body, whatever its type. */
export async function readOptionalJson(request: Request): Promise<unknown> {
  const text = await readText(request)
  if (text === '') return undefined
  expectJson(request)
  return parsed(text)
}

function expectJson({ headers }: Request): void {
  const type = headers.get('Content-Type')
  const encoding = headers.get('Content-Encoding')
  const isJson = type !== null && /^application\/json\s*(;|$)/i.test(type)
  if (isJson && (encoding === null || encoding === 'identity')) return
  const got = isJson ? `content encoding ${encoding}` : (type ?? 'no content type')
  throw new HttpError(415, 'unsupported_media_type', `expected a body of application/json, got ${got}`)
}

async function readText(request: Request): Promise<string> {
  if (Number(request.headers.get('Content-Length')) > BODY_BYTES) throw tooLarge()
  const bytes = await readBytes(request)
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw invalidJson('expected JSON in UTF-8, got other bytes')
  }
}

async function readBytes({ body }: Request): Promise<Uint8Array> {
  if (body === null) return new Uint8Array()
  const chunks: Uint8Array[] = []
  let length = 0
  try {
    // Leaving the loop cancels the stream, so that nothing beyond the limit is read.
    for await (const chunk of body) {
      length += chunk.length
      if (length > BODY_BYTES) throw tooLarge()
      chunks.push(chunk)
    }
  } catch (error) {
    throw error instanceof HttpError ? error : invalidJson('expected a whole body, got one that broke off')
  }
  return joined(chunks, length)
}

function joined(chunks: readonly Uint8Array[], length: number): Uint8Array {
  const bytes = new Uint8Array(length)
  let offset = 0
  for (const chunk of chunks) {
    bytes.set(chunk, offset)
    offset += chunk.length
  }
  return bytes
}

function parsed(text: string): unknown {
  try {
    return parseJson(text)
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    throw invalidJson(error.message)
  }
}

function invalidJson(message: string): HttpError {
  return new HttpError(400, 'invalid_json', message)
}

function tooLarge(): HttpError {
  return new HttpError(
    413,
    'body_too_large',
    `expected a body of at most ${BODY_BYTES} bytes, got a larger one`,
  )
}
