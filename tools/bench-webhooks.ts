// `npm run bench webhooks [-- drain flow isolation claims]`: a fresh house with fsync on, a hundred endpoints of as many
// accounts behind real HTTPS in a process of their own. Drains a backlog, with and without ten endpoints that hang, then times events one by one; the
// claiming alone, from ten thousand rows and from a million, is measured by a bench of the room's own.

import { type ChildProcess, fork, spawn } from "node:child_process";
import { once } from "node:events";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Events, openEvents } from "@cauri/events/events";
import { newId } from "@cauri/money/ids";
import { OperationNews } from "@cauri/proto/ts/cauri/events/v1/events";
import { logger } from "@cauri/rpc/log";
import pg from "pg";
import { handles, type Merchant, merchant } from "../test/house.ts";
import type { Ask, Told } from "./bench-webhooks-receiver.ts";
import { cpuOf, machine, percentile, sum } from "./measure.ts";
import { Sentence } from "./sentence.ts";
import { beginTestRun, type TestRun } from "./test-run.ts";

const root = dirname(import.meta.dirname);
const CLAIM_BENCH = join(root, "services/webhooks/src/claim.bench.ts");
const PARTS = ["drain", "flow", "isolation", "claims"] as const;
const ENDPOINTS = 100;
const HANGING = 10;
const BACKLOG = 20_000;
/** The first drain opens connections and warms compilers; its figures are not told. */
const WARM_UP = 20_000;
const RATE = 200;
const RATE_S = 20;
/** Publications that wait for their acknowledgement at once. */
const PUBLISHING = 250;
/** A drain of this size that takes longer has failed. */
const GIVE_UP_MS = 120_000;

type Place = {
  readonly run: TestRun;
  readonly receiver: ChildProcess;
  readonly events: Events;
  readonly db: pg.Client;
  readonly merchants: readonly Merchant[];
};

/** Without a word all parts; each word is one of them. */
export async function benchWebhooks(words: readonly string[]): Promise<void> {
  const unknown = words.find((word) => !(PARTS as readonly string[]).includes(word));
  if (unknown !== undefined) throw new Sentence(`There is no part "${unknown}": use ${PARTS.join(", ")}.`);
  const wants = (part: (typeof PARTS)[number]) => words.length === 0 || words.includes(part);
  console.log(`machine  ${machine()}`);
  if (wants("drain") || wants("flow") || wants("isolation")) await benchHouse(wants);
  if (wants("claims")) await benchClaims();
}

async function benchHouse(wants: (part: (typeof PARTS)[number]) => boolean): Promise<void> {
  const run = await beginTestRun("bench", { CAURI_RATE_LIMIT: "900" });
  const place = await settle(run);
  try {
    await drain(place, "warm-up", WARM_UP, 0, 0);
    if (wants("drain")) await drain(place, "drain", BACKLOG, 0, 0);
    if (wants("flow")) await flow(place);
    if (wants("isolation")) await compareHanging(place);
  } finally {
    await place.db.end();
    await place.events.close();
    place.receiver.disconnect();
    await run.end();
  }
}

async function compareHanging(place: Place): Promise<void> {
  const alone = await drain(place, `${ENDPOINTS - HANGING} endpoints`, BACKLOG, 0, HANGING);
  const beside = await drain(place, `beside ${HANGING} that hang`, BACKLOG, HANGING, HANGING);
  console.log(`isolation  the others keep ${((beside / alone) * 100).toFixed(0)} % of their rate`);
}

/** Opens the receivers and a merchant with one endpoint for each. */
async function settle(run: TestRun): Promise<Place> {
  const certs = process.env["CAURI_TEST_CERTS"] ?? "";
  const receiver = fork(join(import.meta.dirname, "bench-webhooks-receiver.ts"), [certs, String(ENDPOINTS)]);
  const [ports] = (await once(receiver, "message")) as [number[]];
  const merchants: Merchant[] = [];
  for (const port of ports) {
    const made = await merchant(`Bench ${port}`);
    const answer = await made.test.post("/v1/webhooks", { url: `https://127.0.0.1:${port}/hook` });
    if (answer.status !== 201) throw new Error(`the endpoint was refused: ${answer.status} ${answer.text}`);
    merchants.push(made);
  }
  const { nats_url, database_url } = handles();
  const events = await openEvents({ nats_url, room: "bench", log: logger("bench", "silent") });
  const db = new pg.Client({ connectionString: database_url, options: "-c search_path=webhooks" });
  await db.connect();
  return { run, receiver, events, db, merchants };
}

/**
 * Lets a backlog gather behind endpoints that are switched off, switches them on and waits until all of it has arrived.
 * `hanging` endpoints get their share beside the others' and never answer; the first `spared` ones are not counted upon.
 */
async function drain(place: Place, name: string, backlog: number, hanging: number, spared: number): Promise<number> {
  const { db, receiver, merchants } = place;
  tellReceiver(receiver, { hanging });
  await db.query("update endpoints set is_active = false, consecutive_failures = 0, suspended_until = null");
  const before = await written(db);
  const each = Math.ceil(backlog / (merchants.length - spared));
  const wanted = merchants.slice(hanging > 0 ? 0 : spared);
  await publish(place, Array.from({ length: each }, () => wanted).flat());
  while ((await written(db)) < before + each * wanted.length) await sleep(50);
  await db.query("checkpoint");
  const expected = each * (merchants.length - spared);
  const watched = { ...handles().processes, receivers: receiver.pid ?? 0 };
  const cpu = cpuOf(watched);
  await db.query("update endpoints set is_active = true");
  const told = await heard(receiver, expected);
  const used = cpuOf(watched);
  const seconds = (told.last_ms - told.first_ms) / 1000;
  const rate = expected / seconds;
  console.log(
    `${name.padEnd(18)} ${expected} in ${seconds.toFixed(2)} s: ${rate.toFixed(0)} a second, ${told.doubled} twice`,
  );
  printCpu(cpu, used, expected);
  return rate;
}

/** All that were ever written: how many wait may still fall, by results that the receivers know of before the database. */
async function written(db: pg.Client): Promise<number> {
  const { rows } = await db.query<{ written: number }>("select count(*)::int as written from deliveries");
  return rows[0]?.written ?? 0;
}

/** A steady stream of single events, and how long each takes from its own stamp to the receiver. */
async function flow(place: Place): Promise<void> {
  tellReceiver(place.receiver, { hanging: 0 });
  const watched = { ...handles().processes, receivers: place.receiver.pid ?? 0 };
  const cpu = cpuOf(watched);
  const begun = performance.now();
  const sent: Promise<unknown>[] = [];
  const count = RATE * RATE_S;
  for (let at = 0; at < count; at += 1) {
    const pause = begun + (at * 1000) / RATE - performance.now();
    if (pause > 0) await sleep(pause);
    sent.push(publishOne(place.events, place.merchants[at % place.merchants.length]));
  }
  await Promise.all(sent);
  const { latencies_ms, doubled } = await heard(place.receiver, count);
  const at = (share: number) => `${percentile(latencies_ms, share)} ms`;
  console.log(
    `event to arrival   ${RATE} a second for ${RATE_S} s: p50 ${at(0.5)}, p95 ${at(0.95)}, p99 ${at(0.99)}, longest ${at(1)}, ${doubled} twice`,
  );
  printCpu(cpu, cpuOf(watched), count);
}

async function publish({ events }: Place, to: readonly Merchant[]): Promise<void> {
  for (let at = 0; at < to.length; at += PUBLISHING)
    await Promise.all(to.slice(at, at + PUBLISHING).map((each) => publishOne(events, each)));
}

/** News as collections tells it; nothing else in the house cares for a payment that does not exist. */
function publishOne(events: Events, to: Merchant | undefined): Promise<unknown> {
  const event_id = newId("evt", Date.now());
  const news = OperationNews.encode(
    OperationNews.fromPartial({
      event: "payment.success",
      id: newId("pay", Date.now()),
      reference: "PAY-TEST00000000",
      amountMinor: 1500n,
      assetId: "ast_xof",
      currency: "XOF",
      status: "success",
      account: to?.account_id ?? "",
      mode: "test",
      version: 3n,
      occurredAt: new Date(),
      eventId: event_id,
    }),
  ).finish();
  return events.js.publish("cauri.collections.payment.success", news, { msgID: event_id });
}

function tellReceiver(receiver: ChildProcess, ask: Ask): void {
  receiver.send(ask);
}

async function heard(receiver: ChildProcess, expected: number): Promise<Told> {
  for (const end = performance.now() + GIVE_UP_MS; ; ) {
    const answer = once(receiver, "message");
    tellReceiver(receiver, "tell");
    const [told] = (await answer) as [Told];
    if (told.arrived - told.doubled >= expected) return told;
    if (performance.now() > end) throw new Sentence(`Only ${told.arrived} of ${expected} arrived.`);
    await sleep(200);
  }
}

function printCpu(before: Readonly<Record<string, number>>, after: Readonly<Record<string, number>>, count: number) {
  const used = Object.entries(after).map(([name, ms]) => ({ name, ms: ms - (before[name] ?? 0) }));
  const busy = used.filter(({ ms }) => ms / count >= 0.001).map(({ name, ms }) => `${name} ${(ms / count).toFixed(3)}`);
  const total = sum(used.map(({ ms }) => ms)) / count;
  console.log(`  cpu ms each: ${busy.join(", ")}; sum ${total.toFixed(3)}`);
}

function benchClaims(): Promise<void> {
  return new Promise((settled, reject) => {
    const child = spawn(process.execPath, [CLAIM_BENCH], { stdio: "inherit" });
    child.on("error", reject);
    child.on("exit", (code) => (code === 0 ? settled() : reject(new Sentence("The bench of claiming failed."))));
  });
}
