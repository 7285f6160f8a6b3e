import { randomUUID } from 'node:crypto'
import type { EventEmitter } from 'node:events'
import { Client, Pool, type QueryResultRow } from 'pg'
import { inject } from 'vitest'

import type { TestServer } from './test-server.ts'

/** A database of one test or file, on one of the run's servers. */
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
export async function createDatabase(server: TestServer = inject('postgres')): Promise<TestDatabase> {
  return cloneOf(server, server.template)
}

/** A new database without our schema. */
export async function createEmptyDatabase(server: TestServer = inject('postgres')): Promise<TestDatabase> {
  return cloneOf(server, 'template0')
}

async function cloneOf(server: TestServer, template: string): Promise<TestDatabase> {
  const name = `test_${randomUUID().replaceAll('-', '')}`
  await onServer(server, `create database ${name} template ${template}`)
  const url = urlOf(server, name)
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
      await onServer(server, `drop database ${name} with (force)`)
    },
  }
}

async function onServer({ url }: TestServer, statement: string): Promise<void> {
  const client = new Client(url)
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}

function urlOf(server: TestServer, name: string): string {
  const url = new URL(server.url)
  url.pathname = `/${name}`
  return url.href
}

// Tests cut connections on purpose; an error event without a listener would end the worker.
function ignoringErrors<Emitter extends EventEmitter>(emitter: Emitter): Emitter {
  emitter.on('error', () => undefined)
  return emitter
}
