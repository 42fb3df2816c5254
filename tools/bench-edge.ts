// What admission costs, beside a payment on the same house: CPU of the gateway's limiter and of PostgreSQL for one check;
// and whether the time of a refusal tells a key that shares its beginning with a known one from any other.

import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { newSecret } from "../packages/money/src/api-key.ts";
import { type Api, call, handles, merchant, paymentBody } from "../test/house.ts";
import { openLimiter } from "./bench-checks.ts";
import { RATE_LIMIT } from "./bench-load.ts";
import { cpuOf, machine, percentile, sum } from "./measure.ts";
import { beginTestRun } from "./test-run.ts";

const CLIENTS = 32;
const WARM_UP_S = 5;
const SETTLE_MS = 8_000;
/** The beginning that a guesser would have found: all but the last characters of a known key. */
const SHARED = 40;

export async function benchEdge(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({ args: [...args], options: { seconds: { type: "string", default: "15" } } });
  const seconds = Number(values.seconds);
  console.log(`machine  ${machine()}`);
  // What is measured is the price of a decision, not of a refusal.
  const settings = { CAURI_RATE_LIMIT: String(RATE_LIMIT), CAURI_UNKNOWN_KEY_LIMIT: "900", CAURI_RATE_WINDOW_S: "1" };
  const run = await beginTestRun("bench", { ...settings, CAURI_SIM_DELAY_MS: "1000" });
  try {
    const shop = await merchant("Bench");
    const keys = await Promise.all(Array.from({ length: CLIENTS }, () => shop.key("test")));
    await payments(keys, WARM_UP_S);
    const paid = await payments(keys, seconds);
    // What the payments set off is not to be counted below.
    await sleep(SETTLE_MS);
    console.log(`payments ${paid.rate.toFixed(0)}/s, ${paid.ms.toFixed(3)} ms of CPU each, over all processes`);
    await checks(paid, seconds);
    await guesses(shop.test, seconds);
  } finally {
    await run.end();
  }
}

type Paid = { readonly rate: number; readonly ms: number };

/** A closed loop of payments; CPU of the whole house for one. */
async function payments(keys: readonly Api[], seconds: number): Promise<Paid> {
  const { processes } = handles();
  const before = sum(Object.values(cpuOf(processes)));
  const end = performance.now() + seconds * 1_000;
  let made = 0;
  const client = async (key: Api) => {
    while (performance.now() < end) {
      const answer = await key.post("/v1/payments", paymentBody("00"));
      if (answer.status !== 201) throw new Error(`a payment was answered ${answer.status} ${answer.text}`);
      made += 1;
    }
  };
  await Promise.all(keys.map(client));
  const ms = sum(Object.values(cpuOf(processes))) - before;
  return { rate: made / seconds, ms: ms / made };
}

/** Checks at the rate of those payments, so that they share statements as the payments' own do. */
async function checks(paid: Paid, seconds: number): Promise<void> {
  const { processes } = handles();
  const limiter = openLimiter(60_000);
  const watched = { postgres: processes["postgres"] ?? 0 };
  const pause_ms = (CLIENTS / paid.rate) * 1_000;
  const paced = async (work: (client: number, turn: number) => Promise<unknown>, rounds: number) => {
    let done = 0;
    const begun = process.cpuUsage();
    const before = cpuOf(watched)["postgres"] ?? 0;
    const end = performance.now() + rounds * 1_000;
    await Promise.all(
      Array.from({ length: CLIENTS }, async (_, client) => {
        for (let turn = 0; performance.now() < end; turn += 1) {
          // Clients that kept step would share more statements than payments do.
          const pause = sleep(pause_ms * (0.5 + Math.random()));
          await Promise.all([work(client, turn), pause]);
          done += 1;
        }
      }),
    );
    const used = process.cpuUsage(begun);
    return {
      done,
      own_ms: (used.user + used.system) / 1_000,
      postgres_ms: (cpuOf(watched)["postgres"] ?? 0) - before,
    };
  };
  const key = (client: number, turn: number) => `key_bench_${client}_${Math.floor(turn / RATE_LIMIT)}`;
  await paced((client, turn) => limiter.check(key(client, turn)), WARM_UP_S);
  const idle = await paced(async () => null, seconds);
  const statements = limiter.statements();
  const busy = await paced((client, turn) => limiter.check(key(client, turn)), seconds);
  const together = busy.done / (limiter.statements() - statements);
  await limiter.end();
  const own = busy.own_ms / busy.done - idle.own_ms / idle.done;
  const postgres = busy.postgres_ms / busy.done - idle.postgres_ms / idle.done;
  const share = ((own + postgres) / paid.ms) * 100;
  console.log(
    `checks   ${(busy.done / seconds).toFixed(0)}/s, ${together.toFixed(1)} by one statement: ${own.toFixed(3)} ms in the gateway, ${postgres.toFixed(3)} ms in PostgreSQL each: ${share.toFixed(1)} % of a payment's CPU`,
  );
}

/** Refusals of keys that begin like a known one and of keys that don't, in turn; Welch's t of the two. */
async function guesses(known: Api, seconds: number): Promise<void> {
  const begin = known.key.slice(0, "sk_test_".length + SHARED);
  const times: { readonly near: number[]; readonly far: number[] } = { near: [], far: [] };
  const end = performance.now() + seconds * 1_000;
  for (let turn = 0; performance.now() < end; turn += 1) {
    const secret = newSecret("test");
    // Which of the two comes first changes, so that nothing periodic falls on one of them.
    const kinds = turn % 2 === 0 ? (["near", "far"] as const) : (["far", "near"] as const);
    for (const kind of kinds) {
      const key = kind === "near" ? begin + secret.slice(begin.length) : secret;
      const began = performance.now();
      const { status } = await call(key, "GET", "/v1/assets");
      if (status === 401) times[kind].push(performance.now() - began);
    }
  }
  const told = Object.entries(times).map(([kind, ms]) => {
    const sorted = [...ms].sort((a, b) => a - b);
    return `${kind} ${sorted.length} x, median ${percentile(sorted, 0.5).toFixed(3)} ms`;
  });
  // The slowest tenth is the machine's, not the key's.
  const [near, far] = [cut(times.near), cut(times.far)];
  const t = (near.mean - far.mean) / Math.sqrt(near.variance / near.size + far.variance / far.size);
  console.log(`guesses  ${told.join(", ")}; Welch's t ${t.toFixed(2)} (beyond 4.5 the two can be told apart)`);
}

function cut(ms: readonly number[]): { mean: number; variance: number; size: number } {
  const kept = [...ms].sort((a, b) => a - b).slice(0, Math.ceil(ms.length * 0.9));
  const mean = sum(kept) / kept.length;
  const variance = sum(kept.map((one) => (one - mean) ** 2)) / (kept.length - 1);
  return { mean, variance, size: kept.length };
}
