// `npm run bench ledger-growth [-- --transfers 10000000 --ids house|random --pairs 3]`: whether books that grow stay as fast
// as they were. Prints each million's rate, then by turns a million in young books and one more in the grown ones, since a
// machine that changes its own speed within minutes has no "at the start", and at the end what the tables weigh. Its own
// PostgreSQL, fsync on.

import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { systemClock } from "@cauri/money/clock";
import { deriveUuid, newId } from "@cauri/money/ids";
import { logger } from "@cauri/rpc/log";
import { migrateRoom, roomUrl } from "@cauri/store/migrate";
import { openPool, type Pool } from "@cauri/store/pool";
import { openAccounts } from "./account-store.ts";
import type { GroupOrder, TransferOrder } from "./books.ts";
import { startCarry } from "./carry-store.ts";
import { type Engine, startEngine } from "./engine.ts";
import { findAccount, readBalances } from "./past-store.ts";

const ACCOUNTS = 10_000;
/** Batches of what a busy house gathers while one commits, two under way. */
const CALLERS = 4;
const PER_CALL = 500;
const LOOKUPS = 1_000;

const { values } = parseArgs({
  options: {
    transfers: { type: "string", default: "10000000" },
    step: { type: "string", default: "1000000" },
    pairs: { type: "string", default: "3" },
    ids: { type: "string", default: "house" },
  },
});
const [TRANSFERS, STEP, RANDOM] = [Number(values.transfers), Number(values.step), values.ids === "random"];
const PAIRS = Number(values.pairs);

/** A ledger in a database of its own, with the loop that carries its balances. */
type Books = { readonly pool: Pool; readonly engine: Engine; next: number; close(): Promise<void> };

type Tools = {
  startPostgres(options: { home: string; password: string; log_file: string }): Promise<{
    readonly url: string;
    readonly pid: number;
    stop(): Promise<unknown>;
  }>;
  makeTestFolder(): string;
  removeTestFolder(path: string): void;
  machine(): string;
  cpuOf(processes: Readonly<Record<string, number>>): Record<string, number>;
};

// By path and at run time: services import no tools, and only this bench, run by hand, needs them.
const tools = join(import.meta.dirname, "../../../tools");
const { startPostgres } = (await import(join(tools, "postgres.ts"))) as Tools;
const { makeTestFolder, removeTestFolder } = (await import(join(tools, "test-folder.ts"))) as Tools;
const { machine, cpuOf } = (await import(join(tools, "measure.ts"))) as Tools;

const FLOAT = "float:plt_bench";
const codes = Array.from({ length: ACCOUNTS }, (_, index) => `merchant:acct_${index}:plt_bench`);
const begunAt = systemClock();
const home = makeTestFolder();
const server = await startPostgres({ home: join(home, "postgres"), password: "bench", log_file: join(home, "log") });
try {
  await bench();
} finally {
  await server.stop();
  removeTestFolder(home);
}

async function bench(): Promise<void> {
  const admin = openPool({ url: server.url, name: "growth admin", max: 1 });
  say(`${machine()}, PostgreSQL 18 with fsync, ${ACCOUNTS} accounts, ids of ${RANDOM ? "chance" : "the house"}`);
  const grown = await openBooks(server.url);
  const rates: number[] = [];
  while (grown.next < TRANSFERS) rates.push(await step(admin, grown, "grown"));
  say(`the last ${STEP} / the first: ${((rates.at(-1) ?? 0) / (rates[0] ?? 0)).toFixed(2)}`);
  const ratios: string[] = [];
  for (let pair = 1; pair <= PAIRS; pair += 1) {
    const young = await openBooks(await newDatabase(admin, `young_${pair}`));
    const rate = await step(admin, young, "young");
    await young.close();
    ratios.push(((await step(admin, grown, "grown")) / rate).toFixed(2));
  }
  say(`grown / young by turns: ${ratios.join(", ")} (wanted: at least 0.85)`);
  await tellSizes(admin, grown.next);
  await tellPast(grown.pool);
  await grown.close();
  await admin.end();
}

async function newDatabase(admin: Pool, name: string): Promise<string> {
  await admin.query(`create database ${name}`);
  const url = new URL(server.url);
  url.pathname = `/${name}`;
  return url.href;
}

async function openBooks(admin_url: string): Promise<Books> {
  const dirs = [join(import.meta.dirname, "../migrations")];
  await migrateRoom({ admin_url, room: "ledger", dirs, password: "bench" });
  const pool = openPool({ url: roomUrl(admin_url, "ledger", "bench"), name: "growth" });
  const opened = [FLOAT, ...codes].map((code) => ({ code, asset_id: "ast_xof", book: "live" as const }));
  await openAccounts(pool, opened);
  const engine = startEngine({ pool });
  const carry = startCarry(pool, logger("ledger", "warn"));
  const close = async () => {
    await carry.stop();
    await pool.end();
  };
  const books: Books = { pool, engine, next: 0, close };
  await grow(books, STEP / 10);
  books.next = 0;
  return books;
}

async function step(admin: Pool, books: Books, name: string): Promise<number> {
  const processes = { bench: process.pid, postgres: server.pid };
  const [cpu, wal, begun] = [cpuOf(processes), await walBytes(admin), performance.now()];
  await grow(books, STEP);
  const rate = (STEP / (performance.now() - begun)) * 1000;
  const used = Object.entries(cpuOf(processes)).map(
    ([of, ms]) => `${of} ${(((ms - (cpu[of] ?? 0)) * 1000) / STEP).toFixed(0)}`,
  );
  const bytes = Number((await walBytes(admin)) - wal) / STEP;
  say(
    `${name} to ${books.next.toLocaleString("en")}: ${rate.toFixed(0)}/s; CPU us per transfer: ${used.join(", ")}; WAL ${bytes.toFixed(0)} B`,
  );
  return rate;
}

/** Funds go from the float to merchants one after the other: every account is as warm as every other. */
async function grow(books: Books, count: number): Promise<void> {
  const end = books.next + count;
  const caller = async () => {
    while (books.next < end) {
      const start = books.next;
      books.next += PER_CALL;
      const answers = await books.engine.post(
        Array.from({ length: PER_CALL }, (_, k) => groupOf((start + k) % ACCOUNTS)),
      );
      if (!answers.every((answer) => answer.accepted)) throw new Error("refused");
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
}

function groupOf(place: number): GroupOrder {
  const operation_id = newId("pay", systemClock());
  const transfer: TransferOrder = {
    id: RANDOM ? randomUUID() : deriveUuid(operation_id, "bench"),
    ...{ kind: "post", debit_code: FLOAT, credit_code: codes[(place * 7_919) % ACCOUNTS] ?? "", amount: 5n },
    ...{ hold_id: null, expires_ms: null, effective_ms: null },
  };
  return { asset_id: "ast_xof", book: "live", operation_id, transfers: [transfer] };
}

async function tellSizes(admin: Pool, transfers: number): Promise<void> {
  const { rows } = await admin.query<{ name: string; rows: number; table: number; indexes: number; frozen: number }>(
    `select regexp_replace(c.relname, '_\\d{4}_\\d\\d$', '') as name, sum(s.n_live_tup)::float8 as rows,
       sum(pg_table_size(c.oid))::float8 as table, sum(pg_indexes_size(c.oid))::float8 as indexes,
       sum(c.relallfrozen)::float8 / greatest(sum(c.relpages), 1) as frozen
     from pg_class c join pg_stat_user_tables s on s.relid = c.oid where s.schemaname = 'ledger' and c.relkind = 'r'
     group by 1 order by sum(pg_total_relation_size(c.oid)) desc limit 6`,
  );
  for (const { name, rows: count, table, indexes, frozen } of rows) {
    const each = (bytes: number) => `${(bytes / transfers).toFixed(0)} B`;
    say(
      `${name}: ${count.toFixed(0)} rows; of each transfer ${each(table)} table, ${each(indexes)} index; frozen ${(frozen * 100).toFixed(0)} %`,
    );
  }
}

/** The past of grown books is found as fast as that of young ones. */
async function tellPast(pool: Pool): Promise<void> {
  const times: number[] = [];
  for (let n = 0; n < LOOKUPS; n += 1) {
    const code = codes[(n * 104_729) % ACCOUNTS] ?? "";
    const account = await findAccount(pool, { code, asset_id: "ast_xof", book: "live" });
    if (account === null) throw new Error(`${code} is not open`);
    const begun = performance.now();
    await readBalances(pool, account, { before: new Date(begunAt + n), basis: "recorded" });
    times.push(performance.now() - begun);
  }
  times.sort((a, b) => a - b);
  say(`balance as of an instant: p50 ${times[LOOKUPS >> 1]?.toFixed(2)} ms, p99 ${times[990]?.toFixed(2)} ms`);
}

async function walBytes(admin: Pool): Promise<bigint> {
  const text = "select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint as bytes";
  return (await admin.query<{ bytes: bigint }>(text)).rows[0]?.bytes ?? 0n;
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
