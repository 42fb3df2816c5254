// Kills in the middle of a drain, of the room's process, its PostgreSQL and its nats-server in turn: nothing is lost, and
// twice arrives only what was in flight at a kill. Then seven restarts while every endpoint hangs: no delivery is given
// up, no attempt is spent that was not sent. CAURI_KILLS sets how many kills (6 unless given).

import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { randomBytes, randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type Events, openEvents } from "@cauri/events/events";
import { type TestNats, testNats } from "@cauri/events/testing";
import { newId } from "@cauri/money/ids";
import { isRefusal } from "@cauri/money/refusal";
import { OperationNews } from "@cauri/proto/ts/cauri/events/v1/events";
import { CreateEndpointRequest, WebhookServiceClient } from "@cauri/proto/ts/cauri/webhooks/v1/webhooks";
import { houseCaller } from "@cauri/rpc/caller";
import { connectClient } from "@cauri/rpc/client";
import { logger } from "@cauri/rpc/log";
import { migrateRoom, roomUrl } from "@cauri/store/migrate";
import { openPool, type Pool } from "@cauri/store/pool";
import { serverIdentity, writeAuthority } from "../../../test/authority.ts";

const KILLS = Number(process.env["CAURI_KILLS"] ?? "6");
const VICTIMS = ["webhooks", "postgres", "nats"] as const;
/** Events of one round; each goes to every endpoint of its account. */
const BURST = 100;
const RESTARTS = 7;
/** Accounts, endpoints of each, events of each: 1,600 deliveries wait. */
const [HANGING_ACCOUNTS, HANGING_ENDPOINTS, HANGING_EVENTS] = [4, 10, 40];

type Postgres = {
  readonly url: string;
  readonly port: number;
  kill(): void;
  stop(): Promise<unknown>;
  exited: Promise<unknown>;
};
type Start = { home: string; password: string; log_file: string; port?: number };
type Tools = {
  startPostgres(options: Start): Promise<Postgres>;
  makeTestFolder(): string;
  removeTestFolder(path: string): void;
};

// By path and at run time: services import no tools, and only tests need these.
const tools = join(import.meta.dirname, "../../../tools");
const { startPostgres } = (await import(join(tools, "postgres.ts"))) as Tools;
const { makeTestFolder, removeTestFolder } = (await import(join(tools, "test-folder.ts"))) as Tools;

const home = makeTestFolder();
const place = { home: join(home, "postgres"), password: "crash", log_file: join(home, "postgres.log") };
const vault = `k1:${randomBytes(32).toString("base64")}`;
const log = logger("webhooks-crash", "silent");
/** How often each event reached each endpoint, by both; counted when the request was read to its end. */
const heard = new Map<string, number>();
const expected = new Set<string>();
let hangs = false;
let receiver: Server;
let base: string;
let postgres: Postgres;
let nats: TestNats;
let events: Events;
let pool: Pool;
let url: string;
let child: ChildProcess;

before(async () => {
  await writeAuthority(home);
  receiver = createServer(serverIdentity(home), async (request, response) => {
    request.on("error", () => {});
    for await (const part of request) assert.ok((part as Buffer).length > 0);
    const key = `${request.url} ${request.headers["x-service-delivery"]}`;
    heard.set(key, (heard.get(key) ?? 0) + 1);
    if (hangs) return;
    // Long enough that some attempts are under way whenever something is killed.
    await sleep(randomInt(5, 40));
    response.end();
  });
  await new Promise<void>((open) => receiver.listen(0, "127.0.0.1", open));
  base = `https://127.0.0.1:${(receiver.address() as AddressInfo).port}`;
  postgres = await startPostgres(place);
  const dirs = [join(import.meta.dirname, "../migrations")];
  await migrateRoom({ admin_url: postgres.url, room: "webhooks", dirs, password: "crash" });
  url = roomUrl(postgres.url, "webhooks", "crash");
  pool = openPool({ url, name: "crash test" });
  nats = await testNats();
  events = await openEvents({ nats_url: nats.url, room: "collections", log });
});
after(async () => {
  child?.kill("SIGKILL");
  await events?.close();
  await nats?.close();
  await pool?.end();
  await postgres?.stop();
  receiver?.closeAllConnections();
  receiver?.close();
  removeTestFolder(home);
});

/** Starts the process; `more` are settings of this start. Answers the port of its RPCs. */
async function start(more: Readonly<Record<string, string>> = {}): Promise<number> {
  const unset = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("CAURI_")));
  const env = {
    ...{ ...unset, NATS_URL: nats.url, CAURI_WEBHOOKS_DATABASE_URL: url, CAURI_RPC_TOKEN: "house" },
    ...{ CAURI_FINGERPRINT_KEY: "fingerprint", CAURI_VAULT_KEYS: vault, CAURI_LOG_LEVEL: "silent" },
    ...{ CAURI_WEBHOOK_ALLOW: "127.0.0.0/8", CAURI_WEBHOOK_CA: join(home, "ca.pem"), CAURI_WEBHOOK_LADDER: "5,5,5,5" },
    ...more,
  };
  child = fork(join(import.meta.dirname, "main.ts"), { env, stdio: ["ignore", 2, 2, "ipc"], execArgv: [] });
  const left = once(child, "exit").then(([code]) => Promise.reject(new Error(`the process left with ${code}`)));
  const [{ ports }] = (await Promise.race([once(child, "message"), left])) as [{ ports: { rpc: number } }];
  left.catch(() => {});
  return ports.rpc;
}

async function kill(signal: NodeJS.Signals): Promise<void> {
  const gone = once(child, "exit");
  child.kill(signal);
  await gone;
}

/** Registers endpoints for accounts; answers each account's paths. */
async function register(port: number, accounts: readonly string[], each: number): Promise<Map<string, string[]>> {
  const client = connectClient(WebhookServiceClient, { address: `127.0.0.1:${port}`, token: "house" });
  const paths = new Map<string, string[]>();
  for (const account of accounts) {
    const made = Array.from({ length: each }, (_, at) => `/${account}/${at}`);
    for (const path of made) {
      const caller = houseCaller(account, "test", "req", newId("whk", Date.now()));
      const request = CreateEndpointRequest.fromPartial({ url: `${base}${path}` });
      assert.ok(!isRefusal(await client.createEndpoint(request, { caller })));
    }
    paths.set(account, made);
  }
  client.closeChannel();
  return paths;
}

/** Puts an event on the stream, again until the stream has it, as the relay of its room does. */
async function publish(account: string, paths: readonly string[]): Promise<void> {
  const event_id = newId("evt", Date.now());
  const operation = { id: newId("pay", Date.now()), reference: "PAY-TEST00000000", status: "success", account };
  const payload = OperationNews.encode(
    OperationNews.fromPartial({
      ...{ ...operation, event: "payment.success", eventId: event_id, version: 2n, mode: "test" },
      ...{ amountMinor: 1500n, assetId: "ast_xof", currency: "XOF", occurredAt: new Date() },
    }),
  ).finish();
  for (;;) {
    try {
      await events.js.publish("cauri.collections.payment.success", payload, { msgID: event_id });
      break;
    } catch {
      await sleep(50);
    }
  }
  for (const path of paths) expected.add(`${path} ${event_id}`);
}

async function until(what: string, ask: () => boolean | Promise<boolean>, within_ms: number): Promise<void> {
  for (const end = Date.now() + within_ms; !(await ask()); await sleep(20))
    if (Date.now() > end) assert.fail(`not within ${within_ms} ms: ${what}`);
}

const missing = () => [...expected].filter((key) => !heard.has(key));

/** Kills one and starts it again; answers what was in flight when it died, by path and event. */
async function killOne(victim: (typeof VICTIMS)[number]): Promise<string[]> {
  if (victim === "nats") {
    await nats.kill();
    await nats.start();
    return [];
  }
  if (victim === "webhooks") {
    await kill("SIGKILL");
    const flown = await inFlight();
    await start();
    return flown;
  }
  // The room is frozen until what was in flight has been read: it would write results as soon as it can.
  child.kill("SIGSTOP");
  postgres.kill();
  await postgres.exited;
  postgres = await startPostgres({ ...place, port: postgres.port });
  const flown = await inFlight();
  child.kill("SIGCONT");
  return flown;
}

async function inFlight(): Promise<string[]> {
  const { rows } = await pool.query<{ url: string; event_id: string }>(
    `select e.url, d.event_id from flights f join deliveries d on d.id = f.delivery_id join endpoints e on e.id = f.endpoint_id`,
  );
  return rows.map(({ url: at, event_id }) => `${at.slice(base.length)} ${event_id}`);
}

/** Attempts whose end was written down, by path and event. */
async function loggedAttempts(): Promise<ReadonlyMap<string, number>> {
  const { rows } = await pool.query<{ key: string; times: number }>(
    `select right(e.url, - length($1)) || ' ' || d.event_id as key, count(a.at)::int as times
       from attempts a join deliveries d on d.id = a.delivery_id join endpoints e on e.id = a.endpoint_id group by 1`,
    [base],
  );
  return new Map(rows.map(({ key, times }) => [key, times]));
}

test(`crash: ${KILLS} kills in the middle of a drain lose nothing, and double only what was in flight`, {
  timeout: 1_800_000,
}, async (t) => {
  const accounts = ["acct_a", "acct_b", "acct_c", "acct_d"];
  const paths = await register(await start(), accounts, 5);
  const mayDouble = new Set<string>();
  for (let n = 0; n < KILLS; n += 1) {
    const before_burst = heard.size;
    const burst = Array.from({ length: BURST }, (_, at) => {
      const account = accounts[at % accounts.length] ?? "";
      return publish(account, paths.get(account) ?? []);
    });
    const some = before_burst + randomInt(20, (BURST * 5) / 2);
    await until("deliveries of the burst", () => heard.size >= some, 60_000);
    const victim = VICTIMS[n % VICTIMS.length] ?? "webhooks";
    const arrived = heard.size - before_burst;
    const flown = await killOne(victim);
    for (const key of flown) mayDouble.add(key);
    t.diagnostic(`${victim} killed after ${arrived} of ${BURST * 5} deliveries, ${flown.length} in flight`);
    await Promise.all(burst);
  }
  await until("every delivery", () => missing().length === 0, 300_000);
  const pending = "select 1 from deliveries where status <> 'delivered' limit 1";
  await until("every result", async () => (await pool.query(pending)).rowCount === 0, 120_000);
  // What arrived and is not in the log of attempts went out, and nobody wrote down how it ended.
  const logged = await loggedAttempts();
  const doubled = [...heard].filter(([key, times]) => times > (logged.get(key) ?? 0)).map(([key]) => key);
  const unexplained = doubled.filter((key) => !mayDouble.has(key));
  t.diagnostic(`${expected.size} deliveries, ${KILLS} kills: none lost, ${doubled.length} doubled by a kill`);
  assert.deepEqual(unexplained, [], "twice without having been in flight at a kill");
  assert.deepEqual(
    [...heard.keys()].filter((key) => !expected.has(key)),
    [],
  );
  await kill("SIGTERM");
});

test(`restarts: ${RESTARTS} in a row while every endpoint hangs give up no delivery and spend no attempt unsent`, {
  timeout: 600_000,
}, async (t) => {
  heard.clear();
  expected.clear();
  hangs = true;
  // Few connections and a long time-out: that a slow machine does not get a request out in time is not the matter here.
  const clocks = {
    ...{ CAURI_WEBHOOK_TIMEOUT_MS: "12000", CAURI_WEBHOOK_PARALLEL_ACCOUNT: "20" },
    ...{ CAURI_WEBHOOK_LADDER: "10,10,10,10", CAURI_WEBHOOK_SUSPEND_S: "5", CAURI_DRAIN_MS: "1000" },
  };
  const accounts = Array.from({ length: HANGING_ACCOUNTS }, (_, at) => `acct_hang_${at}`);
  const paths = await register(await start(clocks), accounts, HANGING_ENDPOINTS);
  for (const [account, of] of paths) for (let at = 0; at < HANGING_EVENTS; at += 1) await publish(account, of);
  const waiting = async (status: string) =>
    (await pool.query("select 1 from deliveries where account like 'acct_hang%' and status = $1", [status])).rowCount;
  await until("all are waiting", async () => (await waiting("pending")) === expected.size, 120_000);
  const ended = "select 1 from deliveries where account like 'acct_hang%' and attempts > 0 limit 1";
  for (let n = 0; n < RESTARTS; n += 1) {
    // Once long enough that attempts end by their time-out and count.
    if (n === 3) await until("attempts that have ended", async () => (await pool.query(ended)).rowCount === 1, 120_000);
    else await sleep(randomInt(500, 3_000));
    const gone = once(child, "exit");
    child.kill("SIGTERM");
    // In the middle of its drain, or when it has just given back what was under way.
    await Promise.race([gone, sleep(randomInt(100, 1_500))]);
    child.kill("SIGKILL");
    await gone;
    await start(clocks);
  }
  // In one statement: the room is running, and its next results may be written at any moment.
  const { rows } = await pool.query<{ key: string; attempts: number; logged: number }>(
    `select right(e.url, - length($1)) || ' ' || d.event_id as key, d.attempts,
            (select count(a.at)::int from attempts a where a.delivery_id = d.id) as logged
       from deliveries d join endpoints e on e.id = d.endpoint_id where d.account like 'acct_hang%'`,
    [base],
  );
  const spent = rows.reduce((sum, { attempts }) => sum + attempts, 0);
  const sent = [...heard.values()].reduce((sum, times) => sum + times, 0);
  assert.deepEqual([rows.length, await waiting("failed"), await waiting("pending")], [1_600, 0, 1_600]);
  assert.ok(rows.every(({ attempts, logged }) => attempts === logged));
  const unsent = rows.filter(({ key, attempts }) => attempts > (heard.get(key) ?? 0));
  assert.deepEqual(unsent, [], "an attempt was counted that the receiver never saw");
  assert.ok(spent > 0, "no attempt ended by its time-out");
  t.diagnostic(
    `${RESTARTS} restarts: ${sent} requests arrived, ${spent} attempts counted, 0 of ${rows.length} given up`,
  );
  hangs = false;
  receiver.closeAllConnections();
  await until("all are delivered", async () => (await waiting("delivered")) === rows.length, 300_000);
  assert.deepEqual(missing(), []);
});
