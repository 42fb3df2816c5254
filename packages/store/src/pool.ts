// The pool and the transaction. One connection pipelines its statements: BEGIN leaves together with the first statement,
// and a last write that the work does not await leaves together with COMMIT.
// Never make a network call inside a transaction; the work may run again after a conflict, so it has no other effects.

import type { Writable } from "node:stream";
import { inSpan } from "@cauri/trace/span";
import pg from "pg";

/** Limits of every session, in milliseconds: below a write's deadline of 8 s, so that the database gives up first. */
export const SESSION_LIMITS = {
  statement_timeout: 7_000,
  lock_timeout: 4_000,
  idle_in_transaction_session_timeout: 5_000,
} as const;

/** What its spans say, by the semantic conventions of OpenTelemetry. */
const SQL = { "db.system.name": "postgresql" };

/** A connection that can't be had within this time is a 503, not a wait. */
const CONNECT_TIMEOUT_MS = 3_000;
/**
 * A connection on which nothing comes for so long is asked whether its server is still there; ten unanswered seconds later it
 * is lost. By the system's own setting a server that vanished without a word would be noticed after two hours.
 */
const SILENT_MS = 5_000;
const DEFAULT_CONNECTIONS = 10;

/**
 * For rooms whose statements reach for single rows by their keys, whether for one or for a hundred. A prepared statement
 * that joins an array is planned without knowing how short it is, and once for a table that will grow: PostgreSQL then
 * reads the whole table for each batch. Such a plan is the same for all values, so it is made once per connection.
 */
const BY_INDEX = [
  ...["enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "enable_material", "jit"].map(
    (name) => `-c ${name}=off`,
  ),
  "-c plan_cache_mode=force_generic_plan",
].join(" ");

/** A conflict is retried after 5, 10, 20, 40 ms (and as much again at random); a fifth one is a fault. */
const MAX_ATTEMPTS = 5;
const RETRY_BASE_MS = 5;
/** serialization_failure and deadlock_detected: the other one won, nothing was done. */
const CONFLICTS: readonly string[] = ["40001", "40P01"];
const BEGIN = "begin";
/** Its statements are not prepared: a page deep inside a filter wants a plan for its very values. */
const BEGIN_SNAPSHOT = "begin isolation level repeatable read read only; set local plan_cache_mode = force_custom_plan";
/** A migration changed what a prepared statement gives back: the connection is dropped, and a new one plans anew. */
const STALE_PLAN = "0A000";
/** As many connections as may hold such a plan, each dropped by the try that met it. */
const MAX_STALE = 100;
/** in_failed_sql_transaction: a statement before this one failed. */
const ABORTED = "25P02";

/** SQLSTATEs that say "not now" rather than "wrong": connection, resources, operator, time-outs, a conflict lost too often. */
const PASSING_STATES = /^(?:08|53|57)|^(?:55P03|25P03|40001|40P01)$/;
const PASSING_CODES: readonly string[] = [
  ...["ECONNREFUSED", "ECONNRESET", "EPIPE", "ETIMEDOUT", "ENOTFOUND", "EAI_AGAIN"],
  // The socket of a local server that has stopped is gone.
  "ENOENT",
];

/** What a JSON logger of ours (pino) offers; packages/store needs no more of it. */
export type Log = {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
};

export type Pool = pg.Pool;

/** A pool or a transaction: what a single read needs. */
export type Queryable = {
  query<T extends pg.QueryResultRow = pg.QueryResultRow>(
    text: string,
    values?: readonly unknown[],
  ): Promise<{ rows: T[]; rowCount: number | null }>;
};

export type Prepared = { readonly name: string; readonly text: string };

/** One open transaction. A statement whose result is not needed may stay un-awaited: its error surfaces at the commit. */
export type Tx = Queryable & {
  readonly pool: Pool;
  /** A hot statement: parsed and planned once per connection under its name, which belongs to this one text for ever. */
  prepared<T extends pg.QueryResultRow = pg.QueryResultRow>(
    statement: Prepared,
    values?: readonly unknown[],
  ): Promise<{ rows: T[]; rowCount: number | null }>;
  /** Runs once after the commit has succeeded: wakes a loop, updates a view in memory. Never run after a rollback. */
  afterCommit(run: () => void): void;
};

/** What a fault of the database carries where it is passing: the caller's answer is then 503 instead of 500. */
export type Unavailable = Error & { unavailable: true };

export type PoolOptions = {
  readonly url: string;
  readonly name: string;
  readonly max?: number;
  readonly log?: Log;
  /** Plans every statement by indexes, nested loops and once: right where none of them reads a large part of a table. */
  readonly by_index?: boolean;
  /** Instead of each of the limits of waiting: for tests, which must not fail because their machine is busy. */
  readonly patience_ms?: number;
};

export function openPool(options: PoolOptions): Pool {
  const { patience_ms } = options;
  const pool = new pg.Pool({
    connectionString: options.url,
    application_name: options.name,
    max: options.max ?? DEFAULT_CONNECTIONS,
    connectionTimeoutMillis: patience_ms ?? CONNECT_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: SILENT_MS,
    pipeline: true,
    types: { getTypeParser },
    ...(options.by_index === true ? { options: BY_INDEX } : {}),
    ...(patience_ms === undefined ? SESSION_LIMITS : limitsOf(patience_ms)),
  });
  // An idle connection that breaks (a failover) is replaced by the pool; without a listener it would end the process.
  pool.on("error", (error) => options.log?.warn({ err: error, pool: options.name }, "an idle connection was lost"));
  // One that breaks between two statements of whoever holds it tells nobody else: whoever uses it next sees it broken.
  pool.on("connect", (client) => void client.on("error", ignore));
  const query = pool.query.bind(pool) as (...args: unknown[]) => unknown;
  const marked = (...args: unknown[]): unknown => {
    const result = options.by_index === true ? prepared(query, args) : query(...args);
    return result instanceof Promise ? result.catch(rethrowMarked) : result;
  };
  pool.query = marked as typeof pool.query;
  return pool;
}

function limitsOf(ms: number): Record<keyof typeof SESSION_LIMITS, number> {
  return { statement_timeout: ms, lock_timeout: ms, idle_in_transaction_session_timeout: ms };
}

/** A statement outside any transaction, prepared as those within are. The pool drops a connection on which one failed. */
function prepared(query: (...args: unknown[]) => unknown, args: unknown[]): unknown {
  const [text, values] = args;
  if (typeof text !== "string" || !Array.isArray(values) || args.length > 2) return query(...args);
  return survivingStalePlans(() => query({ ...preparedOf(text) }, values) as Promise<unknown>);
}

async function survivingStalePlans<T>(send: () => Promise<T>): Promise<T> {
  for (let left = MAX_STALE; ; left -= 1) {
    try {
      return await send();
    } catch (error) {
      if (left === 0 || codeOf(error) !== STALE_PLAN) throw error;
    }
  }
}

/** Runs the work in a transaction, again after a serialization failure or a deadlock. */
export function transact<T>(pool: Pool, work: (tx: Tx) => Promise<T>): Promise<T> {
  return retried(() => runOnce(pool, BEGIN, work));
}

/** A transaction of one statement, which leaves in one packet and is answered by one; again after a deadlock as well. */
export function single<T extends pg.QueryResultRow = pg.QueryResultRow>(
  pool: Pool,
  text: string,
  values: readonly unknown[],
): Promise<{ rows: T[]; rowCount: number | null }> {
  return retried(() => pool.query<T>(text, values as unknown[]));
}

function retried<T>(run: () => Promise<T>): Promise<T> {
  return inSpan("transaction", { kind: "client", within: true, attributes: SQL }, () => untilUnopposed(run));
}

async function untilUnopposed<T>(run: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await run();
    } catch (error) {
      const again = CONFLICTS.includes(codeOf(error)) || codeOf(error) === STALE_PLAN;
      if (attempt === MAX_ATTEMPTS || !again) throw error;
      const pause_ms = RETRY_BASE_MS * 2 ** (attempt - 1) * (1 + Math.random());
      await new Promise((resolve) => setTimeout(resolve, pause_ms));
    }
  }
}

/** Runs reads on one snapshot, so that a total and its page tell of the same moment. */
export function snapshot<T>(pool: Pool, work: (tx: Tx) => Promise<T>): Promise<T> {
  return runOnce(pool, BEGIN_SNAPSHOT, work);
}

/** For tests: runs the work and takes everything back, so that nothing of it stays. */
export async function rolledBack<T>(pool: Pool, work: (tx: Tx) => Promise<T>): Promise<T> {
  const undo = new Error("rolled back on purpose");
  let result: T | undefined;
  try {
    await runOnce(pool, BEGIN, async (tx) => {
      result = await work(tx);
      throw undo;
    });
  } catch (error) {
    if (error !== undo) throw error;
  }
  return result as T;
}

/** Tells whether an error says that the database can't be had now: the request may simply be repeated. */
export function isUnavailable(error: unknown): error is Unavailable {
  if (!(error instanceof Error)) return false;
  if ("unavailable" in error) return error.unavailable === true;
  const code = codeOf(error);
  // The driver's own words for a connection that broke or could not be had carry no code.
  return (
    PASSING_STATES.test(code) ||
    PASSING_CODES.includes(code) ||
    /^(?:Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error)/.test(
      error.message,
    )
  );
}

async function runOnce<T>(pool: Pool, begin: string, work: (tx: Tx) => Promise<T>): Promise<T> {
  const client = await pool.connect().catch(rethrowMarked);
  const after: (() => void)[] = [];
  const sent: Promise<unknown>[] = [];
  const send = (statement: string | Prepared, values?: readonly unknown[]) => {
    const named = begin === BEGIN && values !== undefined ? preparedOf(statement) : statement;
    if (typeof named !== "string") prepares = true;
    gatherWrites(client);
    // A copy: the driver writes the values into the object that it is given.
    const answer = client.query(typeof named === "string" ? named : { ...named }, values as unknown[]);
    // The error of a statement that nobody awaits is found below; here it only must not count as unhandled.
    answer.catch(() => {});
    sent.push(answer);
    return answer;
  };
  let broken: Error | undefined;
  let prepares = false;
  try {
    send(begin);
    let result: T;
    try {
      const tx = { query: send as Tx["query"], prepared: send as Tx["prepared"], pool };
      result = await work({ ...tx, afterCommit: (run) => void after.push(run) });
    } catch (error) {
      await client.query("rollback").catch((cause: Error) => {
        broken = cause;
      });
      throw await firstFault(error, sent);
    }
    await commit(client, sent);
    for (const run of after) run();
    return result;
  } catch (error) {
    // What stood in the pipeline behind a failed statement was never parsed, but the driver counts it as prepared: every
    // later use of its name on this connection would fail. So the connection goes with the failure.
    if (prepares) broken ??= await failureOf(sent);
    return rethrowMarked(error);
  } finally {
    // The pool itself drops a connection that broke; one that could not even roll back is dropped here.
    client.release(broken);
  }
}

/**
 * Commits, and throws what the statements before it threw. A pipelined COMMIT after a failed statement does not fail: it
 * resolves with the command ROLLBACK, and whoever doesn't look believes that the writes are there.
 */
async function commit(client: pg.PoolClient, sent: readonly Promise<unknown>[]): Promise<void> {
  gatherWrites(client);
  const committed = client.query("commit");
  committed.catch(() => {});
  await Promise.all(sent);
  const answer = await committed;
  if (answer.command !== "COMMIT") throw new Error(`the transaction was not committed: ${answer.command}`);
}

/**
 * After a failed statement all later ones of its pipeline fail with 25P02, which tells nothing: whoever decides whether
 * to run the work again must see what failed first, such as a deadlock.
 */
async function firstFault(error: unknown, sent: readonly Promise<unknown>[]): Promise<unknown> {
  if (codeOf(error) !== ABORTED) return error;
  for (const answer of await Promise.allSettled(sent)) {
    if (answer.status === "rejected" && codeOf(answer.reason) !== ABORTED) return answer.reason;
  }
  return error;
}

/** A connection of one's own (the relay's) whose statements, constants of the stores, are parsed and planned once. */
export function preparing(client: pg.ClientBase): Queryable {
  const query = (text: string, values?: readonly unknown[]) =>
    values === undefined ? client.query(text) : client.query({ ...preparedOf(text) }, values as unknown[]);
  return { query: query as Queryable["query"] };
}

/** The error of the first statement that the database refused; none where the work itself gave up. */
async function failureOf(sent: readonly Promise<unknown>[]): Promise<Error | undefined> {
  const answers = await Promise.allSettled(sent);
  const failed = answers.find((answer) => answer.status === "rejected");
  return failed === undefined ? undefined : failed.reason;
}

const gathering = new WeakSet<pg.PoolClient>();

/**
 * Statements that are sent one after another without waiting leave in one packet, BEGIN with the first, COMMIT with the
 * last: a system call for each, with a turn of the server for each, was a sixth of a room's time.
 */
function gatherWrites(client: pg.PoolClient): void {
  if (gathering.has(client)) return;
  // The driver does not declare its socket.
  const { stream } = (client as unknown as { connection: { stream: Writable } }).connection;
  gathering.add(client);
  stream.cork();
  process.nextTick(() => {
    gathering.delete(client);
    stream.uncork();
  });
}

const names = new Map<string, Prepared>();

/**
 * The statements of a transaction are parsed and planned once per connection, which is about a third of PostgreSQL's time
 * for a payment. Their texts are constants of the stores, so the number of names is bounded.
 */
function preparedOf(statement: string | Prepared): Prepared {
  if (typeof statement !== "string") return statement;
  let named = names.get(statement);
  if (named === undefined) {
    named = { name: `t${names.size}`, text: statement };
    names.set(statement, named);
  }
  return named;
}

function ignore(): void {}

function rethrowMarked(error: unknown): never {
  if (isUnavailable(error)) Object.assign(error, { unavailable: true });
  throw error;
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";
}

const { builtins } = pg.types;
const INT8_ARRAY = 1016;
const parseTextArray = pg.types.getTypeParser(1009 as number) as (text: string) => (string | null)[];

/** int8 as bigint, dates as text; a numeric is a mistake (a sum of bigints needs `::bigint`), so it never gets through. */
function getTypeParser(oid: number, format?: "text" | "binary"): unknown {
  if (oid === builtins.INT8) return BigInt;
  if (oid === INT8_ARRAY)
    return (text: string) => parseTextArray(text).map((item) => (item === null ? null : BigInt(item)));
  if (oid === builtins.DATE) return String;
  if (oid === builtins.NUMERIC) {
    return () => {
      throw new Error("a numeric reached the driver: cast it to bigint in the statement");
    };
  }
  return pg.types.getTypeParser(oid, format);
}
