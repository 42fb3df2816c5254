// What goes out without a claim, on a real PostgreSQL: what arrives where nothing waits, and what takes the place of a
// delivery that has arrived; under the caps of a claim, behind what waits, in the order of the operation.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { newId } from "@cauri/money/ids";
import { openCipher } from "@cauri/store/cipher";
import { openPool, type Pool, transact } from "@cauri/store/pool";
import { type TestDatabase, testDatabase } from "@cauri/store/testing";
import { type Arrived, type Event, insertDeliveries } from "./arrival-store.ts";
import { type Claimed, claimDue } from "./delivery-store.ts";
import type { Attempt, Dialer } from "./dialer.ts";
import { deleteEndpoint, type Endpoint, insertEndpoint, lockAccount } from "./endpoint-store.ts";
import { endAndTake, endAttempts } from "./result-store.ts";
import { newSecret, sealSecret } from "./secret.ts";
import { openSender, type Sender } from "./sender.ts";

const RULES = { ladder_s: [60, 300, 1800, 7200], suspend_ms: 3_600_000 };
const BOUNDS = { per_endpoint: 4, per_account: 40, lease_ms: 20_000, timeout_ms: 4_000 };
const cipher = openCipher(`k1:${randomBytes(32).toString("base64")}`);

let database: TestDatabase;
let pool: Pool;
before(openDatabase);
async function openDatabase(): Promise<void> {
  database = await testDatabase("webhooks", [join(import.meta.dirname, "..", "migrations")]);
  pool = database.pool;
}
after(() => database.close());

let serial = 0;
async function endpoint(account: string): Promise<Endpoint> {
  serial += 1;
  const operation_id = `op_${serial}`;
  const secret_sealed = sealSecret(cipher, { operation_id }, newSecret());
  const rest = { description: null, subscribed_events: [], standard_headers: false, secret_sealed };
  const made = await transact(pool, async (tx) => {
    await lockAccount(tx, account);
    return insertEndpoint(tx, { operation_id, account, url: `https://shop.example.com/${serial}`, ...rest });
  });
  assert.ok(made !== null);
  return made;
}

function event(account: string, operation: string | null, version = 1): Event {
  serial += 1;
  const operation_id = operation ?? newId("pay", serial);
  const facts = { event: "payment.success", account, mode: "test" as const, body: "{}", occurred_at: new Date() };
  return { ...facts, event_id: newId("evt", serial), operation_id, version: BigInt(version) };
}

const several = (account: string, count: number) => Array.from({ length: count }, () => event(account, null));
const arrive = (events: readonly Event[]) => insertDeliveries(pool, events, { ...BOUNDS, now: new Date() });
/** Deliveries under way, endpoints to claim at, endpoints where the end of an attempt has to come first. */
const counts = ({ claimed, queued, held }: Arrived) => [claimed.length, queued.length, held.length];
const endsOf = (all: readonly Claimed[]) =>
  all.map((claimed) => ({ claimed, attempt: answered(true), at: new Date() }));
const rules = () => ({ ...RULES, now: new Date() });
const until = async (what: () => boolean | Promise<boolean>) => {
  while (!(await what())) await new Promise((later) => setTimeout(later, 5));
};

test("arrive: as many go at once as the cap leaves room for, and what waits goes before what comes later", async () => {
  const account = "acct_cap";
  const at = await endpoint(account);
  const first = await arrive(several(account, 6));
  assert.deepEqual(counts(first), [4, 0, 1]);
  await endAttempts(pool, endsOf(first.claimed), rules());
  assert.deepEqual(counts(await arrive(several(account, 1))), [0, 1, 0], "there is room, but two wait already");
  const claim = { ...BOUNDS, endpoints: [at.id], limit: 10, now: new Date() };
  assert.equal((await transact(pool, (tx) => claimDue(tx, claim))).claimed.length, 3);
  assert.deepEqual(counts(await arrive(several(account, 2))), [1, 0, 1]);
});

test("arrive: with 18 failures behind it an endpoint gets two, suspended or switched off none", async () => {
  const account = "acct_bad";
  const { id } = await endpoint(account);
  const set = (what: string) => pool.query(`update endpoints set ${what} where id = $1`, [id]);
  await set("suspended_until = now() + interval '1 hour', consecutive_failures = 20");
  assert.deepEqual(counts(await arrive(several(account, 1))), [0, 1, 0]);
  await pool.query("delete from queue where endpoint_id = $1", [id]);
  await set("suspended_until = null, is_active = false");
  assert.deepEqual(counts(await arrive(several(account, 1))), [0, 1, 0]);
  await pool.query("delete from queue where endpoint_id = $1", [id]);
  await set("is_active = true, consecutive_failures = 18");
  assert.deepEqual(counts(await arrive(several(account, 4))), [2, 0, 1]);
});

test("arrive: an endpoint that another runner is at is passed over, one that is deleted meanwhile gets nothing", async () => {
  const account = "acct_busy";
  const { id } = await endpoint(account);
  await transact(pool, async (tx) => {
    await tx.query("select id from endpoints where id = $1 for no key update", [id]);
    assert.deepEqual(counts(await arrive(several(account, 2))), [0, 1, 0]);
  });
  let arriving: Promise<Arrived> | undefined;
  await transact(pool, async (tx) => {
    await deleteEndpoint(tx, account, id);
    arriving = arrive(several(account, 1));
    const waits = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    await until(async () => (await pool.query(waits)).rowCount === 1);
  });
  assert.deepEqual(await arriving, { claimed: [], queued: [], held: [] });
});

test("arrive: events of one operation go together, a later one waits while an earlier one is under way", async () => {
  const account = "acct_order";
  const { id } = await endpoint(account);
  const { claimed } = await arrive([event(account, "pay_1", 2), event(account, "pay_1", 1)]);
  assert.deepEqual(
    claimed.map(({ version }) => version),
    [1n, 2n],
  );
  const { rows } = await pool.query<{ more: number }>(
    "select round(extract(epoch from max(lease_until) - min(lease_until)) * 1000)::int as more from flights where endpoint_id = $1",
    [id],
  );
  assert.equal(rows[0]?.more, BOUNDS.timeout_ms, "time for the attempt before it");
  assert.deepEqual(counts(await arrive([event(account, "pay_1", 3), event(account, "pay_2", 1)])), [1, 0, 1]);
});

function answered(delivered: boolean): Attempt {
  const error = delivered ? null : "answered 500";
  return { delivered, status_code: delivered ? 200 : 500, duration_ms: 1, error, answer: null };
}

const refill = (id: bigint, all: readonly Claimed[]) =>
  endAndTake(pool, endsOf(all), rules(), { ...BOUNDS, endpoints: [id] });

test("refill: as many go out as have arrived, and no more than the cap has room for", async () => {
  const { id } = await endpoint("acct_refill");
  const { claimed } = await arrive(several("acct_refill", 10));
  const next = await refill(id, claimed.slice(0, 2));
  assert.equal(next.length, 2);
  assert.deepEqual(counts(await arrive(several("acct_refill", 1))), [0, 0, 1], "four are under way again");
  const tighter = { ...BOUNDS, per_endpoint: 3, endpoints: [id] };
  const rest = [...claimed.slice(2), ...next];
  assert.equal((await endAndTake(pool, endsOf(rest.slice(0, 2)), rules(), tighter)).length, 1);
  assert.equal((await refill(id, rest.slice(0, 2))).length, 0, "a result that is written twice gives no place twice");
  assert.deepEqual((await endAndTake(pool, endsOf(rest.slice(2)), rules(), { ...BOUNDS, endpoints: [] })).length, 0);
});

test("refill: the operation's next event follows the one that has arrived, and none that is under way", async () => {
  const account = "acct_next";
  const { id } = await endpoint(account);
  const { claimed } = await arrive([event(account, "pay_a"), event(account, "pay_b")]);
  await arrive([event(account, "pay_a", 2), event(account, "pay_b", 2), event(account, "pay_a", 3)]);
  const next = await refill(
    id,
    claimed.filter(({ about }) => about === "pay_b"),
  );
  assert.deepEqual(
    next.map(({ about, version }) => [about, version]),
    [["pay_b", 2n]],
  );
});

test("refill: an endpoint that has failed, that is switched off or whose delivery another runner has takes nothing", async () => {
  const account = "acct_unwell";
  const { id } = await endpoint(account);
  const set = (what: string) => pool.query(`update endpoints set ${what} where id = $1`, [id]);
  const { claimed } = await arrive(several(account, 10));
  const one = (at: number) => claimed.slice(at, at + 1);
  await set("consecutive_failures = 1");
  assert.equal((await refill(id, one(0))).length, 0);
  await set("is_active = false");
  assert.equal((await refill(id, one(1))).length, 0);
  await set("is_active = true");
  await pool.query("update flights set no = no + 1000000 where delivery_id = $1", [one(2)[0]?.id]);
  assert.equal((await refill(id, one(2))).length, 0);
  assert.equal((await refill(id, one(3))).length, 1, "and well again it does");
});

/** For senders: what the tests before have left waiting would be sent as well. */
async function renewDatabase(): Promise<void> {
  const before = database;
  await openDatabase();
  await before.close();
}

test("refill: two replicas that claim and refill at once send each delivery once, in order and within the cap", async () => {
  await renewDatabase();
  const account = "acct_race";
  const { id } = await endpoint(account);
  const operations = Array.from({ length: 60 }, () => newId("pay", 1));
  await insertDeliveries(
    pool,
    [1, 2, 3].flatMap((version) => operations.map((operation) => event(account, operation, version))),
    null,
  );
  const sent: string[] = [];
  let under_way = 0;
  const post: Dialer["post"] = async (_url, headers) => {
    sent.push(headers["x-service-delivery"] ?? "");
    under_way += 1;
    assert.ok(under_way <= BOUNDS.per_endpoint, `${under_way} at once`);
    await new Promise((later) => setTimeout(later, Math.random() * 4));
    under_way -= 1;
    return answered(true);
  };
  const pools = [1, 2].map((n) => openPool({ url: database.url, name: `replica ${n}`, max: 4, by_index: true }));
  const replicas: Sender[] = pools.map((each) => openSender(senderOptions(each, post, BOUNDS.per_endpoint)));
  for (const each of replicas) each.hint();
  await until(async () => {
    await Promise.all(replicas.map((each) => each.pump()));
    return sent.length >= 180 && replicas.every((each) => each.inFlight() === 0);
  });
  await Promise.all(replicas.map((each) => each.stop()));
  await Promise.all(pools.map((each) => each.end()));
  assert.equal(new Set(sent).size, 180);
  assert.equal(sent.length, 180);
  const { rows } = await pool.query<{ event_id: string; of: string; version: bigint }>(
    "select event_id, operation_id as of, version from deliveries where endpoint_id = $1 and status = 'delivered'",
    [id],
  );
  const place = new Map(sent.map((event_id, at) => [event_id, at]));
  for (const of of operations) {
    const mine = rows.filter((row) => row.of === of).sort((a, b) => Number(a.version - b.version));
    const places = mine.map(({ event_id }) => place.get(event_id) ?? -1);
    assert.deepEqual(
      places,
      places.toSorted((a, b) => a - b),
    );
    assert.equal(mine.length, 3);
  }
});

function senderOptions(of: Pool, post: Dialer["post"], per_endpoint: number) {
  const log = { info() {}, error: (fields: object) => assert.fail(JSON.stringify(fields)) };
  return {
    ...{ pool: of, cipher, dialer: { post } as Dialer, log, now: Date.now, wake: () => {}, observe: () => {} },
    ...{ parallel: 64, per_endpoint, per_account: 40, timeout_ms: 4_000, grace_ms: 1_000, ...RULES },
  };
}

test("sender: events of one operation follow one another; after one that fails the rest waits for its result", async () => {
  await renewDatabase();
  const account = "acct_chain";
  const { id } = await endpoint(account);
  const answers: ((attempt: Attempt) => void)[] = [];
  const post: Dialer["post"] = () => new Promise((answer) => answers.push(answer));
  const sender = openSender(senderOptions(pool, post, 8));
  const come = async (operation: string, versions: readonly number[]) => {
    const events = versions.map((version) => event(account, operation, version));
    await sender.arrived(await insertDeliveries(pool, events, sender.offer()));
  };
  await come("pay_1", [1, 2, 3]);
  assert.equal(answers.length, 1);
  answers[0]?.(answered(true));
  await until(() => answers.length === 2);
  answers[1]?.(answered(false));
  await until(() => sender.inFlight() === 0);
  assert.equal(answers.length, 2, "the third was given back");
  const { rows } = await pool.query(
    "select d.version, d.status, d.attempts, q.delivery_id is not null as queued from deliveries d " +
      "left join queue q on q.delivery_id = d.id where d.endpoint_id = $1 order by d.version",
    [id],
  );
  assert.deepEqual(rows, [
    { version: 1n, status: "delivered", attempts: 1, queued: false },
    { version: 2n, status: "pending", attempts: 1, queued: true },
    { version: 3n, status: "pending", attempts: 0, queued: true },
  ]);
  await sender.pump();
  await until(() => answers.length === 3);
  answers[2]?.(answered(true));
  await until(() => sender.inFlight() === 0);
  await sender.stop();
});
