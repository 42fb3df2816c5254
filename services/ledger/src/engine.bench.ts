// `npm run bench ledger [-- seconds --only engine,monitor,procedure,unary,batch]`: transfers per second by every road into the
// engine, and beside them one stored procedure per transfer and an empty RPC. It starts a PostgreSQL of its own, with fsync on.

import { fork } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { isRefusal, type Refusal } from "@cauri/money/refusal";
import { type Group, LedgerServiceClient, type PostRequest } from "@cauri/proto/ts/cauri/ledger/v1/ledger";
import { connectClient } from "@cauri/rpc/client";
import { logger } from "@cauri/rpc/log";
import { migrateRoom, roomUrl } from "@cauri/store/migrate";
import { openPool, type Pool } from "@cauri/store/pool";
import { openAccounts } from "./account-store.ts";
import { EchoClient, FLOAT, groupOf, messageOf, TOKEN } from "./bench-rpc.bench.ts";
import { startCarry } from "./carry-store.ts";
import { type Engine, startEngine } from "./engine.ts";
import { startMonitor } from "./monitor.ts";
import { verify } from "./verify.ts";

const ACCOUNTS = 10_000;
const CALLERS = 64;
const BATCH = 1_000;
const BATCH_CALLERS = 4;
const { values: options, positionals } = parseArgs({ options: { only: { type: "string" } }, allowPositionals: true });
const SECONDS = Number(positionals[0] ?? "8");
/** As many as a service's pool would have: each transfer is a transaction of its own there. */
const PROCEDURE_CONNECTIONS = 16;

type Server = { readonly url: string; readonly pid: number; stop(): Promise<unknown> };
type Tools = {
  startPostgres(options: { home: string; password: string; log_file: string }): Promise<Server>;
  makeTestFolder(): string;
  removeTestFolder(path: string): void;
  machine(): string;
  cpuOf(processes: Readonly<Record<string, number>>): Record<string, number>;
  percentile(sorted: readonly number[], share: number): number;
};
type Place = { readonly admin: Pool; readonly processes: Readonly<Record<string, number>> };
type Work = (debit: string, credit: string) => Promise<number>;

// By path and at run time: services import no tools, and only this bench, run by hand, needs them.
const tools = join(import.meta.dirname, "../../../tools");
const { startPostgres } = (await import(join(tools, "postgres.ts"))) as Tools;
const { makeTestFolder, removeTestFolder } = (await import(join(tools, "test-folder.ts"))) as Tools;
const { machine, cpuOf, percentile } = (await import(join(tools, "measure.ts"))) as Tools;

const codes = Array.from({ length: ACCOUNTS }, (_, index) => `merchant:acct_${index}:plt_bench`);
const hot = codes.slice(0, 1);
const home = makeTestFolder();
const server = await startPostgres({ home: join(home, "postgres"), password: "bench", log_file: join(home, "log") });
try {
  await bench();
} finally {
  await server.stop();
  removeTestFolder(home);
}

async function bench(): Promise<void> {
  const dirs = [join(import.meta.dirname, "../migrations")];
  await migrateRoom({ admin_url: server.url, room: "ledger", dirs, password: "bench" });
  const url = roomUrl(server.url, "ledger", "bench");
  const pool = openPool({ url, name: "bench", max: PROCEDURE_CONNECTIONS });
  const admin = openPool({ url: server.url, name: "bench admin", max: 1 });
  await openAccounts(
    pool,
    [FLOAT, ...codes].map((code) => ({ code, asset_id: "ast_xof", book: "live" as const })),
  );
  const place: Place = { admin, processes: { bench: process.pid, postgres: server.pid } };
  say(`${machine()}, PostgreSQL 18 with fsync, ${ACCOUNTS} accounts, ${SECONDS} s each`);
  const engine = startEngine({ pool });
  const carry = startCarry(pool, logger("ledger", "warn"));
  await fund(engine);
  const parts = {
    engine: () => benchEngine(place, engine),
    monitor: () => benchMonitor(place, pool, engine),
    procedure: () => benchProcedure(place, pool, engine),
    unary: () => atService(place, url, benchUnary),
    batch: () => atService(place, url, benchBatches),
  };
  const wanted = options.only?.split(",");
  for (const [name, part] of Object.entries(parts)) if (wanted?.includes(name) ?? true) await part();
  await carry.stop();
  const { rows } = await admin.query<{ updates: bigint; hot: bigint }>(
    "select n_tup_upd as updates, n_tup_hot_upd as hot from pg_stat_user_tables where relname = 'accounts'",
  );
  say(`updates of accounts that stayed on their page (HOT): ${rows[0]?.hot} of ${rows[0]?.updates}`);
  const found = await verify(pool);
  say(`verify: ${found.transfers} transfers, ${found.problems.length} problems`);
  for (const { sentence } of found.problems.slice(0, 5)) say(sentence);
  await pool.end();
  await admin.end();
}

async function fund(engine: Engine): Promise<void> {
  for (let start = 0; start < ACCOUNTS; start += BATCH) {
    await engine.post(codes.slice(start, start + BATCH).map((code) => groupOf(FLOAT, code, 1_000_000_000n)));
  }
}

/** Pairs in one run, because a shared machine is not the same from one minute to the next. */
async function benchEngine(place: Place, engine: Engine): Promise<void> {
  const work = onEngine(engine);
  await run(place, "warm-up", CALLERS, codes, work);
  const ratios: number[] = [];
  for (let pair = 0; pair < 2; pair += 1) {
    const cold = await run(place, "engine, cold accounts", CALLERS, codes, work);
    ratios.push((await run(place, "engine, one hot account", CALLERS, hot, work)) / cold);
  }
  say(`hot / cold: ${said(ratios)} (wanted: at least 0.9)`);
}

/** Beside callers the monitor catches up on all that was posted before, and verifies everything from the beginning. */
async function benchMonitor(place: Place, pool: Pool, engine: Engine): Promise<void> {
  for (let pair = 0; pair < 2; pair += 1) {
    await run(place, "engine, cold accounts", CALLERS, codes, onEngine(engine));
    const monitor = startMonitor({ pool, log: logger("ledger", "silent") });
    await run(place, "engine, cold accounts, beside the monitor", CALLERS, codes, onEngine(engine));
    await monitor.stop();
    // What it left half done is due again: it has as much to do the second time.
    await place.admin.query("truncate ledger.verifications; truncate ledger.verify_marks");
  }
}

function onEngine(engine: Engine): Work {
  return async (debit, credit) => {
    const [answer] = await engine.post([groupOf(debit, credit, 1n)]);
    if (!answer?.accepted) throw new Error(`refused: ${answer?.transfers[0]?.result}`);
    return 1;
  };
}

/** What most would write: lock both accounts in order, look, write transfer and entries, update; one commit each. */
async function benchProcedure(place: Place, pool: Pool, engine: Engine): Promise<void> {
  await place.admin.query(`
    create table ledger.p_accounts (id text primary key, debits bigint not null, credits bigint not null) with (fillfactor = 50);
    insert into ledger.p_accounts select code, 0, 1000000000 from ledger.accounts;
    create table ledger.p_transfers (id uuid primary key, debit text not null, credit text not null, amount bigint not null,
      at timestamptz not null);
    create table ledger.p_entries (account text, at timestamptz, id uuid, debits bigint not null, credits bigint not null,
      primary key (account, at, id));
    create function ledger.p_transfer(key uuid, d text, c text, sum bigint) returns void language plpgsql as $$
    declare now timestamptz; left_over bigint;
    begin
      perform from p_accounts a where a.id in (d, c) order by a.id for update;
      now := clock_timestamp();
      insert into p_transfers values (key, d, c, sum, now);
      update p_accounts a set debits = debits + sum where a.id = d returning credits - debits into left_over;
      if left_over < 0 then raise exception 'insufficient funds'; end if;
      update p_accounts a set credits = credits + sum where a.id = c;
      insert into p_entries select a.id, now, key, a.debits, a.credits from p_accounts a where a.id in (d, c);
    end $$;
    grant select, insert, update on ledger.p_accounts, ledger.p_transfers, ledger.p_entries to cauri_ledger;
    analyze ledger.p_accounts`);
  const text = "select p_transfer($1, $2, $3, 1)";
  const work: Work = async (debit, credit) => {
    const id = groupOf(debit, credit, 1n).transfers[0]?.id;
    await pool.query({ name: "p_transfer", text, values: [id, debit, credit] });
    return 1;
  };
  await run(place, "stored procedure, one hot account", CALLERS, hot, work);
  const ratios: number[] = [];
  for (let pair = 0; pair < 2; pair += 1) {
    const procedure = await run(place, "stored procedure, cold accounts", CALLERS, codes, work);
    ratios.push((await run(place, "engine, cold accounts", CALLERS, codes, onEngine(engine))) / procedure);
  }
  say(`engine / one stored procedure per transfer: ${said(ratios)} (wanted: at least 5)`);
}

/** In a process of its own, as it runs in the house. */
async function atService(place: Place, url: string, bench: (there: Place, address: string) => Promise<void>) {
  const child = fork(join(import.meta.dirname, "bench-rpc.bench.ts"), [url]);
  try {
    const [{ port }] = (await once(child, "message")) as [{ port: number }];
    const address = `127.0.0.1:${port}`;
    const ledger = connectClient(LedgerServiceClient, { address, token: TOKEN });
    // What a service knows after its first minutes: an account that it meets for the first time it reads under the lock.
    for (let start = 0; start < ACCOUNTS; start += BATCH) {
      await postAll(
        ledger,
        codes.slice(start, start + BATCH).map((code) => messageOf(FLOAT, code)),
      );
    }
    ledger.closeChannel();
    await bench({ ...place, processes: { ...place.processes, ledger: child.pid ?? 0 } }, address);
  } finally {
    child.kill("SIGKILL");
  }
}

/** The same pairs on either road: as any gRPC client calls, and as our own services do. */
async function benchUnary(there: Place, address: string): Promise<void> {
  const alone = await besideEcho(there, "unary", { address, token: TOKEN, unary: true });
  say(`Post / echo: ${said(alone)} (wanted: at least 0.8)`);
  // The echo costs next to nothing here, so what is left is the ledger's own price.
  const shared = await besideEcho(there, "shared", { address, token: TOKEN });
  say(`Post / echo on a shared stream: ${said(shared)} (no goal)`);
}

async function besideEcho(
  there: Place,
  road: string,
  options: Parameters<typeof connectClient>[1],
): Promise<readonly number[]> {
  const [ledger, echo] = [connectClient(LedgerServiceClient, options), connectClient(EchoClient, options)];
  const one =
    (client: typeof ledger | typeof echo): Work =>
    (debit, credit) =>
      postAll(client, [messageOf(debit, credit)]);
  await run(there, `warm-up over ${road} gRPC`, CALLERS, codes, one(ledger));
  const ratios: number[] = [];
  for (let pair = 0; pair < 2; pair += 1) {
    const empty = await run(there, `empty echo over ${road} gRPC`, CALLERS, codes, one(echo));
    ratios.push((await run(there, `Post of one over ${road} gRPC`, CALLERS, codes, one(ledger))) / empty);
  }
  ledger.closeChannel();
  echo.closeChannel();
  return ratios;
}

async function benchBatches(there: Place, address: string): Promise<void> {
  const ledger = connectClient(LedgerServiceClient, { address, token: TOKEN });
  const work: Work = () =>
    postAll(
      ledger,
      Array.from({ length: BATCH }, () => messageOf(...pairOf(codes))),
    );
  for (let round = 0; round < 2; round += 1) {
    await run(there, `Post of ${BATCH} over gRPC`, BATCH_CALLERS, codes, work);
  }
  ledger.closeChannel();
}

type Poster = { post(request: PostRequest): Promise<{ groups: { accepted: boolean }[] } | Refusal> };

async function postAll(client: Poster, groups: Group[]): Promise<number> {
  const response = await client.post({ groups });
  if (isRefusal(response)) throw new Error(response.message);
  if (!response.groups.every((group) => group.accepted)) throw new Error("refused");
  return groups.length;
}

/** Runs the callers for the time of a measurement, prints one line and returns transfers per second. */
async function run(place: Place, name: string, callers: number, from: readonly string[], work: Work): Promise<number> {
  const latencies: number[] = [];
  const cpu = cpuOf(place.processes);
  const wal = await walBytes(place.admin);
  const begun = performance.now();
  let transfers = 0;
  const caller = async () => {
    for (let at = performance.now(); at < begun + SECONDS * 1000; at = performance.now()) {
      const done = await work(...pairOf(from));
      transfers += done;
      latencies.push(performance.now() - at);
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  const rate = (transfers / (performance.now() - begun)) * 1000;
  latencies.sort((a, b) => a - b);
  const [p50, p95, p99] = [0.5, 0.95, 0.99].map((share) => percentile(latencies, share).toFixed(1));
  const after = cpuOf(place.processes);
  const micros = Object.keys(after).map(
    (of) => `${of} ${((((after[of] ?? 0) - (cpu[of] ?? 0)) * 1000) / transfers).toFixed(0)}`,
  );
  const bytes = Number((await walBytes(place.admin)) - wal) / transfers;
  say(
    `${name}: ${rate.toFixed(0)}/s, p50 ${p50} p95 ${p95} p99 ${p99} ms; CPU us per transfer: ${micros.join(", ")}; WAL ${bytes.toFixed(0)} B`,
  );
  return rate;
}

async function walBytes(admin: Pool): Promise<bigint> {
  const text = "select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint as bytes";
  return (await admin.query<{ bytes: bigint }>(text)).rows[0]?.bytes ?? 0n;
}

/** Between two merchants; of a hot account, that one is debited in every transfer. */
function pairOf(from: readonly string[]): [debit: string, credit: string] {
  const debit = from[randomInt(from.length)] ?? "";
  const credit = codes[randomInt(1, ACCOUNTS)] ?? "";
  return debit === credit ? [debit, FLOAT] : [debit, credit];
}

function said(ratios: readonly number[]): string {
  return ratios.map((ratio) => ratio.toFixed(2)).join(", ");
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
