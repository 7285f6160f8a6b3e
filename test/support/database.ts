import { randomUUID } from 'node:crypto'
import type { EventEmitter } from 'node:events'
import { Client, Pool, type QueryResultRow } from 'pg'
import { inject } from 'vitest'

/** A database of one test or file, on the run's server. */
export interface TestDatabase {
  readonly name: string
  /** The superuser's connection URL. */
  readonly url: string
  /** Runs a statement on a connection of its own, apart from those under test, and returns the rows. */
  query<Row extends QueryResultRow = Record<string, unknown>>(
    text: string,
    params?: readonly unknown[],
  ): Promise<Row[]>
  /** A new connection, closed together with the database if the test does not. */
  connect(): Promise<Client>
  /** Ends all connections, anyone's, and drops the database. */
  close(): Promise<void>
}

/** A new database with the migrated schema of the environment `test`, cloned in some 40 ms. */
export async function createDatabase(): Promise<TestDatabase> {
  return cloneOf(inject('postgres').template)
}

/** A new database without our schema. */
export async function createEmptyDatabase(): Promise<TestDatabase> {
  return cloneOf('template0')
}

async function cloneOf(template: string): Promise<TestDatabase> {
  const name = `test_${randomUUID().replaceAll('-', '')}`
  await onServer(`create database ${name} template ${template}`)
  const url = urlOf(name)
  const clients: Client[] = []
  const pool = ignoringErrors(new Pool({ connectionString: url, max: 1, idleTimeoutMillis: 0 }))
  return {
    name,
    url,
    query: async (text, params = []) => (await pool.query(text, [...params])).rows,
    connect: async () => {
      const client = ignoringErrors(new Client(url))
      clients.push(client)
      await client.connect()
      return client
    },
    close: async () => {
      await Promise.all([pool.end(), ...clients.map((client) => client.end())])
      await onServer(`drop database ${name} with (force)`)
    },
  }
}

async function onServer(statement: string): Promise<void> {
  const client = new Client(inject('postgres').url)
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}

function urlOf(name: string): string {
  const url = new URL(inject('postgres').url)
  url.pathname = `/${name}`
  return url.href
}

// Tests cut connections on purpose; an error event without a listener would end the worker.
function ignoringErrors<Emitter extends EventEmitter>(emitter: Emitter): Emitter {
  emitter.on('error', () => undefined)
  return emitter
}
