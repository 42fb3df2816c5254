// Transfers per second of the engine's own function: 64 callers, one transfer each, on many accounts and on one.
// Run: node services/ledger/src/engine.bench.ts [seconds]. It starts a PostgreSQL of its own, with fsync on.

import { randomInt } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@cauri/money/clock";
import { newId, uuidOf } from "@cauri/money/ids";
import { migrateRoom, roomUrl } from "@cauri/store/migrate";
import { openPool } from "@cauri/store/pool";
import { openAccounts } from "./account-store.ts";
import type { GroupOrder } from "./books.ts";
import { type Engine, startEngine } from "./engine.ts";
import { verify } from "./verify.ts";

const ACCOUNTS = 10_000;
const CALLERS = 64;
const SECONDS = Number(process.argv[2] ?? "8");
const FLOAT = "float:plt_bench";

type Server = { readonly url: string; readonly pid: number; stop(): Promise<unknown> };
type Tools = { startPostgres(options: { home: string; password: string; log_file: string }): Promise<Server> };

// By path and at run time: services import no tools, and only this bench, run by hand, needs one.
const { startPostgres } = (await import(join(import.meta.dirname, "../../../tools/postgres.ts"))) as Tools;
const home = mkdtempSync(join(tmpdir(), "cauri-bench-"));
const server = await startPostgres({ home: join(home, "postgres"), password: "bench", log_file: join(home, "log") });
try {
  const dirs = [join(import.meta.dirname, "../migrations")];
  await migrateRoom({ admin_url: server.url, room: "ledger", dirs, password: "bench" });
  const pool = openPool({ url: roomUrl(server.url, "ledger", "bench"), name: "bench" });
  const codes = Array.from({ length: ACCOUNTS }, (_, index) => `merchant:acct_${index}:plt_bench`);
  const names = [FLOAT, ...codes].map((code) => ({ code, asset_id: "ast_xof", book: "live" as const }));
  await openAccounts(pool, names);
  const engine = startEngine({ pool });
  say(`${cpus().length} x ${cpus()[0]?.model}, PostgreSQL 18 with fsync, ${CALLERS} callers, ${SECONDS} s each`);
  await fund(engine, codes);
  await run("warm-up", engine, codes);
  await run("cold accounts", engine, codes);
  await run("one hot account", engine, codes.slice(0, 1));
  await run("cold accounts", engine, codes);
  await run("one hot account", engine, codes.slice(0, 1));
  const begun = performance.now();
  const found = await verify(pool);
  const seconds = ((performance.now() - begun) / 1000).toFixed(1);
  say(`verify: ${found.transfers} transfers in ${seconds} s, ${found.problems.length} problems`);
  for (const { sentence } of found.problems.slice(0, 5)) say(sentence);
  await pool.end();
} finally {
  await server.stop();
  rmSync(home, { recursive: true, force: true });
}

async function fund(engine: Engine, codes: readonly string[]): Promise<void> {
  await Promise.all(codes.map((code) => engine.post([transfer(FLOAT, code, 1_000_000_000n)])));
}

/** Between merchants; the hot account is one side of every transfer. */
async function run(name: string, engine: Engine, from: readonly string[]): Promise<void> {
  const to = Array.from({ length: ACCOUNTS }, (_, index) => `merchant:acct_${index}:plt_bench`);
  const latencies: number[] = [];
  const begun = performance.now();
  const cpu = process.cpuUsage();
  const cpuThere = postgresMicros();
  const end = begun + SECONDS * 1000;
  const caller = async () => {
    for (let started = performance.now(); started < end; started = performance.now()) {
      const debit = pick(from);
      const credit = pick(to);
      if (debit === credit) continue;
      const [answer] = await engine.post([transfer(debit, credit, 1n)]);
      if (!answer?.accepted) throw new Error(`refused: ${answer?.transfers[0]?.result}`);
      latencies.push(performance.now() - started);
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  const seconds = (performance.now() - begun) / 1000;
  const used = process.cpuUsage(cpu);
  latencies.sort((a, b) => a - b);
  const at = (share: number) => (latencies[Math.floor(latencies.length * share)] ?? 0).toFixed(1);
  const rate = Math.round(latencies.length / seconds);
  const here = ((used.user + used.system) / latencies.length).toFixed(0);
  const there = ((postgresMicros() - cpuThere) / latencies.length).toFixed(0);
  say(
    `${name}: ${rate}/s, p50 ${at(0.5)} p95 ${at(0.95)} p99 ${at(0.99)} ms, CPU per transfer ${here} us here, ${there} us in PostgreSQL`,
  );
}

/** CPU of the server and all that it has started, in microseconds; Linux alone tells it. */
function postgresMicros(): number {
  let ticks = 0;
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      // The name in parentheses may hold spaces; after it come state, parent, and from the 12th on user and system time.
      const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? [];
      if (pid !== String(server.pid) && fields[1] !== String(server.pid)) continue;
      ticks += Number(fields[11]) + Number(fields[12]);
    } catch {
      // A process that ended between the two reads.
    }
  }
  return ticks * 10_000;
}

function pick(codes: readonly string[]): string {
  return codes[randomInt(codes.length)] ?? "";
}

function transfer(debit_code: string, credit_code: string, amount: bigint): GroupOrder {
  return {
    ...{ asset_id: "ast_xof", book: "live", operation_id: "tr_01KAE8BENCH" },
    transfers: [
      {
        ...{ id: uuidOf(newId("tr", systemClock())), kind: "post", debit_code, credit_code, amount },
        ...{ hold_id: null, expires_ms: null, effective_ms: null },
      },
    ],
  };
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
