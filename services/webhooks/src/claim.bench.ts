// The end of `npm run bench webhooks`: how long a claim takes, and writing its results, while ten thousand deliveries
// wait and while a million do. It starts a PostgreSQL of its own, with fsync on.

import { join } from "node:path";
import { migrateRoom, roomUrl } from "@cauri/store/migrate";
import { openPool, type Pool, transact } from "@cauri/store/pool";
import { claimDue } from "./delivery-store.ts";
import { endAttempts } from "./result-store.ts";

const ENDPOINTS = 100;
const FEW = 10_000;
const MANY = 1_000_000;
/** So many claims that no endpoint runs out of its share of the few. */
const ROUNDS = 15;
const LIMIT = 200;
const CLAIM = { limit: LIMIT, per_endpoint: 8, per_account: 40, lease_ms: 20_000 };
const RULES = { ladder_s: [60, 300, 1800, 7200], suspend_ms: 3_600_000 };

type Tools = {
  startPostgres(options: {
    home: string;
    password: string;
    log_file: string;
  }): Promise<{ readonly url: string; stop(): Promise<unknown> }>;
  makeTestFolder(): string;
  removeTestFolder(path: string): void;
  percentile(sorted: readonly number[], share: number): number;
};

// By path and at run time: services import no tools, and only this bench, run by hand, needs them.
const tools = join(import.meta.dirname, "../../../tools");
const { startPostgres } = (await import(join(tools, "postgres.ts"))) as Tools;
const { makeTestFolder, removeTestFolder } = (await import(join(tools, "test-folder.ts"))) as Tools;
const { percentile } = (await import(join(tools, "measure.ts"))) as Tools;

const home = makeTestFolder();
const server = await startPostgres({ home: join(home, "postgres"), password: "bench", log_file: join(home, "log") });
try {
  const dirs = [join(import.meta.dirname, "../migrations")];
  await migrateRoom({ admin_url: server.url, room: "webhooks", dirs, password: "bench" });
  const pool = openPool({ url: roomUrl(server.url, "webhooks", "bench"), name: "bench", max: 2, by_index: true });
  await bench(pool);
  await pool.end();
} finally {
  await server.stop();
  removeTestFolder(home);
}

async function bench(pool: Pool): Promise<void> {
  await pool.query(
    `insert into endpoints (operation_id, account, url, secret_sealed)
     select 'op' || n, 'acct' || n, 'https://shop.example.com/' || n, 'sealed' from generate_series(1, $1::int) n`,
    [ENDPOINTS],
  );
  const endpoints = (await pool.query<{ id: bigint }>("select id from endpoints")).rows.map(({ id }) => id);
  await fill(pool, 0, FEW);
  await measure(pool, endpoints, 3);
  const few = await measure(pool, endpoints, ROUNDS);
  for (let from = FEW; from < MANY; from += 99_000) await fill(pool, from, from + 99_000);
  await measure(pool, endpoints, 3);
  const many = await measure(pool, endpoints, ROUNDS);
  const line = (name: string, { claim_ms, end_ms }: Figures) =>
    say(`claiming ${LIMIT} of ${name}: ${claim_ms.toFixed(1)} ms, writing their results ${end_ms.toFixed(1)} ms`);
  line(`${FEW}`, few);
  line(`${MANY}`, many);
  say(`claiming from a million takes ${(many.claim_ms / few.claim_ms).toFixed(2)} times as long`);
}

/** Half of what waits is the first endpoint's: one that is dead has most of it. */
function fill(pool: Pool, from: number, to: number): Promise<unknown> {
  return transact(pool, async (tx) => {
    await tx.query("set local statement_timeout = 0");
    await tx.query(
      `with made as (
         insert into deliveries (id, endpoint_id, event_id, account, mode, event, operation_id, version, body, occurred_at, due_at)
         select 'dl_' || n, e.id, 'evt_' || n, e.account, 'live', 'payment.success', 'pay_' || n, 1, repeat('x', 300), now(),
                date_trunc('milliseconds', now())
           from generate_series($1::int, $2::int - 1) n
           join endpoints e on e.id = case when n % 2 = 0 then 1 else 1 + n % $3::int end
         returning id, endpoint_id, mode, due_at, operation_id, version)
       insert into queue (endpoint_id, mode, due_at, delivery_id, operation_id, version, attempts)
       select endpoint_id, mode, due_at, id, operation_id, version, 0 from made`,
      [from, to, ENDPOINTS],
    );
  });
}

type Figures = { readonly claim_ms: number; readonly end_ms: number };

/** The median of so many claims, each followed by its results. */
async function measure(pool: Pool, endpoints: readonly bigint[], rounds: number): Promise<Figures> {
  const claims: number[] = [];
  const ends: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const began = performance.now();
    const now = new Date(performance.timeOrigin + began);
    const { claimed } = await transact(pool, (tx) => claimDue(tx, { ...CLAIM, endpoints, now }));
    claims.push(performance.now() - began);
    if (claimed.length !== LIMIT) throw new Error(`${claimed.length} claimed instead of ${LIMIT}`);
    const attempt = { delivered: true, status_code: 200, duration_ms: 5, error: null, answer: Buffer.from("ok") };
    const ended = claimed.map((each) => ({ claimed: each, attempt, at: now }));
    const writing = performance.now();
    await endAttempts(pool, ended, { ...RULES, now });
    ends.push(performance.now() - writing);
  }
  const median = (values: readonly number[]) =>
    percentile(
      values.toSorted((a, b) => a - b),
      0.5,
    );
  return { claim_ms: median(claims), end_ms: median(ends) };
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}
