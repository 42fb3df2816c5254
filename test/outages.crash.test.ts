// PostgreSQL and nats-server away for a while each, and a gateway that is told to stop under load: what can be served
// is, everything else is told as 503, and afterwards all of it goes on by itself with nothing lost.
// CAURI_OUTAGE_S sets how long (12 unless given: longer than every deadline and lease; 30 by hand).

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { closeSync, existsSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { logFile, natsFolder, postgresFolder } from "../tools/data.ts";
import { type HouseProcess, startHouseProcess } from "../tools/house-process.ts";
import { findNats, type Nats, startNats } from "../tools/nats.ts";
import { freePorts } from "../tools/ports.ts";
import { type Postgres, startPostgres } from "../tools/postgres.ts";
import { makeTestFolder, removeTestFolder } from "../tools/test-folder.ts";
import { type Answer, type Api, api, cauri, eventually, handles, merchant, paymentBody } from "./house.ts";
import { isReady, readyAgain } from "./kills.ts";
import { type Receiver, startReceiver } from "./receiver.ts";

const AWAY_MS = Number(process.env["CAURI_OUTAGE_S"] ?? 12) * 1_000;
/** How soon after a server's return all must be as it was; how soon it was is printed. */
const RECOVERED_MS = 5_000;
/** And as much more as so many payments took before, with their news: less than a second each where nothing else runs. */
const MARGIN_PAYMENTS = 20;
/** Longer than a write's deadline at the edge, by what a busy machine may add: an answer must come in any case. */
const PATIENCE_MS = 30_000;
/** What a gateway gives balancers to turn away, and how often ours looks. */
const DRAIN_DELAY_MS = 3_000;
const LOOK_MS = 100;
const DRAINS = 3;
const CLIENTS = 8;
/** Those that speak to NATS: where a cluster turned traffic away from all of them, nothing would be served. */
const ROOMS = ["accounts", "rails", "collections", "payouts", "webhooks"];
const AWAY = "ready\nNATS is away: events wait in the outbox\n";
/** The most that the setting allows: the load here is not what is limited. */
const RATE_LIMIT = 900;
/** Longer than any run, so that none of a burst's calls passes because another has grown old. */
const RATE_WINDOW_S = 3_600;
/** So long a gateway that found the shared log of admissions away does without it, and a little longer. */
const STORE_PAUSE_MS = 1_500;

const folder = makeTestFolder();
const data = join(folder, "data");
let receiver: Receiver;
let postgres: Postgres;
let nats: Nats;
let house: HouseProcess | undefined;

const launchPostgres = (port?: number) =>
  startPostgres({
    home: postgresFolder(folder),
    password: "test",
    log_file: join(folder, "postgres.log"),
    ...(port === undefined ? {} : { port }),
  });
const launchNats = async (port?: number) =>
  startNats({
    bin: await findNats(() => {}),
    store_dir: natsFolder(folder),
    log_file: join(folder, "nats.log"),
    ...(port === undefined ? {} : { port }),
  });

before(async () => {
  receiver = await startReceiver();
  [postgres, nats] = await Promise.all([launchPostgres(), launchNats()]);
  mkdirSync(data, { recursive: true });
  house = await startHouseProcess({
    data,
    output: join(folder, "start.log"),
    settings: {
      DATABASE_URL: postgres.url,
      NATS_URL: nats.url,
      CAURI_SIM_DELAY_MS: "300",
      CAURI_RATE_LIMIT: String(RATE_LIMIT),
      CAURI_RATE_WINDOW_S: String(RATE_WINDOW_S),
      CAURI_DRAIN_DELAY_MS: String(DRAIN_DELAY_MS),
      CAURI_DRAIN_MS: String(DRAIN_DELAY_MS + PATIENCE_MS),
      CAURI_WEBHOOK_ALLOW: "127.0.0.0/8,::1",
      CAURI_WEBHOOK_CA: join(process.env["CAURI_TEST_CERTS"] ?? "", "ca.pem"),
    },
  });
});
after(async () => {
  const code = await house?.stop();
  await Promise.all([receiver.close(), nats?.stop(), postgres?.stop()]);
  removeTestFolder(folder);
  assert.equal(code, 0);
});

/** The public door of this house with the key of a new merchant, who hears of everything. */
async function subscriber(): Promise<Api> {
  const { test: made } = await merchant("Outage", data);
  const at = api(made.key, handles(data).base_url);
  assert.equal((await at.post("/v1/webhooks", { url: `${receiver.url}/${made.key.slice(-4)}` })).status, 201);
  return at;
}

/** A key for each client of a round: none of them comes near its limit, however fast the machine. */
async function clientKeys(): Promise<readonly string[]> {
  const at = await merchant("Drain", data);
  return Promise.all(Array.from({ length: CLIENTS }, async () => (await at.key("test")).key));
}

function pay(at: Api, key: string): Promise<Answer> {
  return at.post("/v1/payments", paymentBody("00"), { "idempotency-key": key });
}

/** A payment before anything is away, and how long a recovery may take on a machine that took so long for it. */
async function payCalmly(at: Api): Promise<{ readonly known: Answer; readonly recovered_ms: number }> {
  const begun = performance.now();
  const known = await pay(at, "before");
  assert.equal(known.status, 201, known.text);
  await receiver.hears(known.body.id, ["payment.success"]);
  return { known, recovered_ms: RECOVERED_MS + MARGIN_PAYMENTS * (performance.now() - begun) };
}

/** The answer, which must come while somebody still waits for it. */
async function within(answer: Promise<Answer>): Promise<Answer> {
  const late = sleep(PATIENCE_MS, null, { ref: false });
  const first = await Promise.race([answer, late]);
  assert.ok(first !== null, `no answer within ${PATIENCE_MS} ms`);
  return first;
}

function isPassing(answer: Answer): void {
  assert.deepEqual([answer.status, answer.body?.error?.code], [503, "temporarily_unavailable"], answer.text);
  assert.ok(Number(answer.headers.get("retry-after")) >= 1);
}

test("PostgreSQL away: 503 with Retry-After and no other fault, the pages are served; then each write is there once", async (t) => {
  const at = await subscriber();
  const { known, recovered_ms } = await payCalmly(at);
  const { port } = postgres;
  await postgres.stop();
  const told: number[] = [];
  const end = performance.now() + AWAY_MS;
  for (let n = 0; performance.now() < end; n += 1) {
    const refused = await within(pay(at, `away-${n}`));
    isPassing(refused);
    isPassing(await within(at.get(`/v1/payments/${known.body.id}`)));
    assert.equal((await within(at.get("/docs"))).status, 200);
    assert.equal((await within(at.get("/healthz"))).status, 200);
    told.push(n);
    await sleep(500);
  }
  postgres = await launchPostgres(port);
  const back = performance.now();
  await eventually(
    "a write",
    () => pay(at, `away-${told[0]}`),
    ({ status }) => status === 201,
    recovered_ms,
  );
  t.diagnostic(`writes again ${Math.round(performance.now() - back)} ms after PostgreSQL's return`);
  const { id } = (await at.get("/v1/payments?per_page=1")).body.data[0];
  await receiver.hears(id, ["payment.initiated"], recovered_ms - (performance.now() - back));
  t.diagnostic(`events again ${Math.round(performance.now() - back)} ms after PostgreSQL's return`);
  const ids: string[] = [];
  for (const n of told) {
    const made = await eventually(
      `the retry ${n}`,
      () => pay(at, `away-${n}`),
      ({ status }) => status === 201,
    );
    ids.push(made.body.id);
  }
  assert.equal(new Set(ids).size, told.length);
  for (const id of ids) await receiver.hears(id, ["payment.success"]);
  assert.equal((await at.get("/v1/payments?per_page=1")).body.total, told.length + 1);
  const { stdout } = await cauri(["ledger", "verify", "--json"], data);
  assert.deepEqual([JSON.parse(stdout).ok, JSON.parse(stdout).problems], [true, []]);
});

/** What a room tells a cluster that asks whether to send it traffic. */
async function readiness(room: string): Promise<[status: number, text: string]> {
  const log = readFileSync(logFile(data, room), "utf8");
  const [, port] = /"metrics":(\d+)\},"msg":"ready"/.exec(log) ?? assert.fail(`${room} has not said its ports`);
  const answer = await fetch(`http://127.0.0.1:${port}/readyz`);
  return [answer.status, await answer.text()];
}

test("nats-server away: reads and writes are served, events wait in the outbox and leave when it is back", async (t) => {
  const at = await subscriber();
  const { recovered_ms } = await payCalmly(at);
  const { port } = nats;
  await nats.stop();
  const ids: string[] = [];
  const end = performance.now() + AWAY_MS;
  for (let n = 0; performance.now() < end; n += 1) {
    const made = await within(pay(at, `away-${n}`));
    assert.equal(made.status, 201, made.text);
    ids.push(made.body.id);
    assert.equal((await within(at.get(`/v1/payments/${made.body.id}`))).status, 200);
    await sleep(500);
  }
  for (const room of ROOMS)
    assert.deepEqual(await readiness(room), [200, AWAY], `${room} serves, and says what is away`);
  assert.equal(receiver.about(ids[0] ?? "").length, 0, "no event can have left");
  nats = await launchNats(port);
  const back = performance.now();
  await receiver.hears(ids[0] ?? "", ["payment.initiated"], recovered_ms);
  t.diagnostic(`events again ${Math.round(performance.now() - back)} ms after nats-server's return`);
  for (const id of ids) await receiver.hears(id, ["payment.initiated", "payment.success"]);
  t.diagnostic(`${ids.length} payments made meanwhile are collected and told`);
});

test("SIGTERM of one of two gateways under load, again and again: no request is lost", {
  skip: existsSync("/proc/self/environ") ? false : "reads the environment of the running gateway from /proc",
}, async (t) => {
  const first = handles(data).base_url;
  const answers: number[] = [];
  for (let n = 0; n < DRAINS; n += 1) {
    const keys = await clientKeys();
    const second = await startSecondGateway();
    const balancer = startBalancer([first, second.base_url]);
    if (n === 0) await shareOneLimit(first, second.base_url);
    const load = startLoad(keys, balancer, `drain-${n}`);
    await eventually(
      "both gateways serve",
      async () => load.served().size,
      (count) => count === 2,
    );
    second.child.kill("SIGTERM");
    const code = await second.exited;
    await sleep(300);
    answers.push(...(await load.stop()));
    balancer.stop();
    assert.equal(code, 0);
  }
  assert.deepEqual([...new Set(answers)], [201]);
  t.diagnostic(`${answers.length} requests over ${DRAINS} stops, each answered 201`);
});

/**
 * One key's limit over two gateways at once: 100 more than it admits, half of them to each. Where a machine stood still for so
 * long that a gateway counted its share by itself, as its log tells, or that a call was answered 503, another key is tried.
 */
async function shareOneLimit(...base_urls: readonly string[]): Promise<void> {
  const account = await merchant("Shared limit", data);
  const burst = async () => {
    const { key } = await account.key("test");
    const before = lossesTold();
    const asked = Array.from({ length: RATE_LIMIT + 100 }, (_, n) => api(key, base_urls[n % 2]).get("/v1/webhooks"));
    const answers = await Promise.all(asked);
    const count = (wanted: number) => answers.filter(({ status }) => status === wanted).length;
    const seen = { passed: count(200), refused: count(429), unanswered: count(503), losses: lossesTold() - before };
    if (seen.losses > 0) await sleep(STORE_PAUSE_MS);
    return seen;
  };
  const isTelling = ({ losses, unanswered }: Awaited<ReturnType<typeof burst>>) => losses === 0 && unanswered === 0;
  const { passed, refused } = await eventually("a burst that nothing disturbs", burst, isTelling);
  assert.deepEqual([passed, refused], [RATE_LIMIT, 100]);
}

/** How often a gateway has said that it counts its share by itself. */
function lossesTold(): number {
  const logs = [logFile(data, "gateway"), join(folder, "second-gateway.log")];
  return logs.flatMap((log) => readFileSync(log, "utf8").match(/each gateway admits its share/g) ?? []).length;
}

/** Another gateway of the same house, on ports of its own. */
async function startSecondGateway() {
  const pid = handles(data).processes["gateway"];
  const environ = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
  // All but the first one's line to its supervisor, which is no file of the second.
  const pairs = environ
    .filter((pair) => pair.includes("=") && !pair.startsWith("NODE_CHANNEL"))
    .map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]);
  const [port, admin_port, grpc_port] = (await freePorts(3)).map(String);
  const env = {
    ...Object.fromEntries(pairs),
    CAURI_PORT: port,
    CAURI_ADMIN_PORT: admin_port,
    CAURI_GRPC_PORT: grpc_port,
  };
  const root = dirname(import.meta.dirname);
  const log = openSync(join(folder, "second-gateway.log"), "a", 0o600);
  const child = spawn(process.execPath, ["gateway/src/main.ts"], { cwd: root, env, stdio: ["ignore", log, log] });
  closeSync(log);
  const exited = new Promise<number | null>((settle) => child.once("exit", settle));
  const base_url = `http://127.0.0.1:${port}`;
  await readyAgain(base_url);
  return { child, exited, base_url };
}

type Balancer = { next(): string; stop(): void };

/** Round robin over what says that it is ready, as any balancer does it: it looks now and then, and never sends twice. */
function startBalancer(all: readonly string[]): Balancer {
  let ready = [...all];
  let turn = 0;
  let stopped = false;
  const looking = (async () => {
    while (!stopped) {
      const states = await Promise.all(all.map(isReady));
      ready = all.filter((_, at) => states[at]);
      await sleep(LOOK_MS);
    }
  })();
  return {
    next() {
      turn += 1;
      return ready[turn % ready.length] ?? assert.fail("no gateway is ready");
    },
    stop() {
      stopped = true;
      void looking;
    },
  };
}

/** Clients that send one request after the other; a request that fails in any way counts with status 0. */
function startLoad(keys: readonly string[], balancer: Balancer, name: string) {
  let running = true;
  const served = new Set<string>();
  const client = async (key: string, index: number) => {
    const statuses: number[] = [];
    for (let n = 0; running; n += 1) {
      const base_url = balancer.next();
      const answer = await pay(api(key, base_url), `${name}-${index}-${n}`).catch(() => null);
      statuses.push(answer?.status ?? 0);
      served.add(base_url);
    }
    return statuses;
  };
  const clients = keys.map(client);
  return {
    served: () => served,
    stop: async () => {
      running = false;
      return (await Promise.all(clients)).flat();
    },
  };
}
