// The rate limit's part of a load: what its statements cost PostgreSQL, by the connections that make nothing else, and what
// a check costs a gateway, by the same limiter in this process.

import pg from "pg";
import { createLimiter, HOLD_MS, type Limiter } from "../gateway/src/rate-limit.ts";
import { admitInStore } from "../gateway/src/rate-store.ts";
import { openPool } from "../packages/store/src/pool.ts";
import { handles } from "../test/house.ts";
import { RATE_LIMIT } from "./bench-load.ts";
import { cpuOf, sum } from "./measure.ts";

/** Statements by which the limiter's own cost is measured. */
const ROUNDS = 200;
const WARM_UP_ROUNDS = 200;

export type OpenLimiter = Limiter & {
  /** Statements so far. */
  statements(): number;
  end(): Promise<void>;
};

/** A limiter as the gateway has one, on the same store, in this process. */
export function openLimiter(window_ms: number): OpenLimiter {
  const url = new URL(handles().database_url);
  url.searchParams.set("options", "-c search_path=gateway");
  const pool = openPool({ url: url.href, name: "bench", by_index: true });
  const rule = { limit: RATE_LIMIT, window_ms, hold_ms: HOLD_MS };
  let statements = 0;
  const batch = () => {
    statements += 1;
  };
  const limiter = createLimiter({
    rule,
    replicas: 1,
    news: { exact: () => {}, batch, failed: (error) => console.log(`failed   ${error}`) },
    ask: (keys, calls) => admitInStore(pool, keys, calls, rule),
  });
  return {
    ...limiter,
    statements: () => statements,
    end: () => {
      limiter.stop();
      return pool.end();
    },
  };
}

/** What the gateway has asked its store so far: statements, the checks in them, and the CPU of its connections by pid. */
export type Asked = {
  readonly statements: number;
  readonly checks: number;
  readonly cpu: Readonly<Record<string, number>>;
};

export async function readAsked(): Promise<Asked> {
  const { admin_url, database_url } = handles();
  const numbers = await (await fetch(`${admin_url}/metrics`)).text();
  const number = (name: string) =>
    Number(new RegExp(`^cauri_batch_size_${name}\\{name="rate_limit"\\} (\\d+)`, "m").exec(numbers)?.[1] ?? 0);
  const client = new pg.Client({ connectionString: database_url });
  await client.connect();
  try {
    const { rows } = await client.query<{ pid: number }>(
      "select pid from pg_stat_activity where usename = 'cauri_gateway'",
    );
    const cpu = cpuOf(Object.fromEntries(rows.map(({ pid }) => [String(pid), pid])));
    return { statements: number("count"), checks: number("sum"), cpu };
  } finally {
    await client.end();
  }
}

/** What the checks of a measured load were of its CPU; `request_ms` is all that a request cost. */
export async function printChecks(before: Asked, after: Asked, requests: number, request_ms: number): Promise<void> {
  const statements = after.statements - before.statements;
  const by_one = (after.checks - before.checks) / statements;
  const postgres =
    sum(Object.entries(after.cpu).map(([pid, ms]) => ms - (before.cpu[pid] ?? 0))) / (after.checks - before.checks);
  const own = await ownCost(Math.max(1, Math.round(by_one)));
  const share = ((((own + postgres) * (after.checks - before.checks)) / requests / request_ms) * 100).toFixed(1);
  console.log(
    `checks   ${by_one.toFixed(1)} of the rate limit by one statement: ${postgres.toFixed(3)} ms in PostgreSQL, ${own.toFixed(3)} ms in the gateway (as this process measures it) each: ${share} % of a request's CPU`,
  );
}

/** CPU of this process for one check, so many of them by one statement. */
async function ownCost(together: number): Promise<number> {
  const limiter = openLimiter(60_000);
  const round = (at: number) =>
    // No key meets its limit: what is measured is an admission.
    Promise.all(Array.from({ length: together }, (_, key) => limiter.check(`key_bench_${at % 4}_${key}`)));
  for (let at = 0; at < WARM_UP_ROUNDS; at += 1) await round(at);
  const begun = process.cpuUsage();
  for (let at = 0; at < ROUNDS; at += 1) await round(at);
  const { user, system } = process.cpuUsage(begun);
  await limiter.end();
  return (user + system) / 1_000 / (ROUNDS * together);
}
