// Deliveries on a real PostgreSQL: once per event, in order, fair, never past the 20th failure, also with two replicas.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { newId } from "@cauri/money/ids";
import { setOffset } from "@cauri/store/clock";
import { type Pool, transact } from "@cauri/store/pool";
import { type TestDatabase, testDatabase } from "@cauri/store/testing";
import { type Event, insertDeliveries } from "./arrival-store.ts";
import { forgetAttempts } from "./attempt-store.ts";
import { type Claimed, claimDue, returnLost, waitingEndpoints } from "./delivery-store.ts";
import {
  deleteEndpoint,
  type Endpoint,
  endpointIds,
  findById,
  insertEndpoint,
  lockAccount,
  reinstate,
} from "./endpoint-store.ts";
import { type Ended, endAttempts } from "./result-store.ts";
import { failOverdue, forgetRemoved, readQueue } from "./upkeep-store.ts";

const RULES = { ladder_s: [60, 300, 1800, 7200], suspend_ms: 3_600_000 };
const CLAIM = { limit: 100, per_endpoint: 8, per_account: 40, lease_ms: 600_000 };

let database: TestDatabase;
let pool: Pool;
before(async () => {
  database = await testDatabase("webhooks", [join(import.meta.dirname, "..", "migrations")]);
  pool = database.pool;
});
after(() => database.close());

let serial = 0;
async function endpoint(account: string, subscribed_events: string[] = []): Promise<Endpoint> {
  serial += 1;
  const made = await transact(pool, async (tx) => {
    await lockAccount(tx, account);
    return insertEndpoint(tx, {
      operation_id: newId("whk", serial),
      account,
      url: `https://shop.example.com/${serial}`,
      description: null,
      subscribed_events,
      standard_headers: false,
      secret_sealed: Buffer.from("sealed"),
    });
  });
  assert.ok(made !== null);
  return made;
}

function event(account: string, operation_id: string, version: number, name = "payment.success"): Event {
  serial += 1;
  return {
    event_id: newId("evt", serial),
    event: name,
    account,
    mode: "test",
    operation_id,
    version: BigInt(version),
    occurred_at: new Date(),
    body: "{}",
  };
}

const insert = (...events: Event[]) => insertDeliveries(pool, events, null);
const claim = async (account: string, more: Partial<typeof CLAIM> = {}) => {
  const endpoints = await endpointIds(pool, account);
  await returnLost(pool);
  const options = { ...CLAIM, ...more, endpoints, now: new Date(), patient: true };
  return (await transact(pool, (tx) => claimDue(tx, options))).claimed;
};
const ended = (claimed: Claimed, delivered: boolean): Ended => ({
  claimed,
  attempt: {
    delivered,
    status_code: delivered ? 200 : 500,
    duration_ms: 1,
    error: delivered ? null : "answered 500",
    answer: Buffer.from(delivered ? "thanks" : "not now"),
  },
  at: new Date(),
});
const end = (...all: Ended[]) => transact(pool, (tx) => endAttempts(tx, all, { ...RULES, now: new Date() }));
const read = async (of: Endpoint) => {
  const found = await findById(pool, of.account, of.id);
  assert.ok(found !== null);
  return found;
};
/** Moves the account's test clock, as a sandbox does. */
const advance = (account: string, offset_ms: number) =>
  transact(pool, (tx) => setOffset(tx, account, BigInt(offset_ms)));

test("insert_deliveries: one per event and subscribed endpoint, however often the stream brings it", async () => {
  const [all, some] = [await endpoint("acct_insert"), await endpoint("acct_insert", ["payment.failed"])];
  await endpoint("acct_other");
  const first = event("acct_insert", "pay_1", 1);
  const rounds = await Promise.all(Array.from({ length: 8 }, () => insert(first)));
  assert.deepEqual(
    rounds.flatMap(({ queued }) => queued),
    [all.id],
  );
  const { queued } = await insert(event("acct_insert", "pay_1", 2, "payment.failed"));
  assert.deepEqual(queued.toSorted(), [all.id, some.id].toSorted());
  const claimed = await claim("acct_insert");
  assert.deepEqual(claimed.map(({ endpoint_id }) => endpoint_id).sort(), [all.id, some.id].sort());
});

test("claim_due: events of one operation go in order, and a retried one no longer holds back the others", async () => {
  const account = "acct_order";
  await endpoint(account);
  const [one, two] = [event(account, "pay_1", 1), event(account, "pay_1", 2)];
  await insert(two, one, event(account, "pay_2", 1));
  const first = await claim(account);
  assert.deepEqual(first.map(({ event_id }) => event_id).includes(two.event_id), false);
  assert.equal(first.length, 2);
  assert.deepEqual(await claim(account), [], "what is under way is not claimed again, nor overtaken");
  await end(...first.map((claimed) => ended(claimed, claimed.event_id !== one.event_id)));
  assert.deepEqual(
    (await claim(account)).map(({ event_id }) => event_id),
    [two.event_id],
  );
});

test("claim_due: two replicas at once never pass the cap and never take the same", async () => {
  const account = "acct_cap";
  await endpoint(account);
  await insert(...Array.from({ length: 40 }, (_, i) => event(account, `pay_${i}`, 1)));
  const rounds = await Promise.all(Array.from({ length: 10 }, () => claim(account)));
  const ids = rounds.flat().map(({ id }) => id);
  assert.equal(ids.length, 8);
  assert.equal(new Set(ids).size, 8);
});

test("suspension: exactly 20 attempts fail, whatever the number of replicas; then one probe at a time", async () => {
  const account = "acct_suspend";
  const at = await endpoint(account);
  await insert(...Array.from({ length: 60 }, (_, i) => event(account, `pay_${i}`, 1)));
  let attempts = 0;
  const replica = async () => {
    for (let round = 0; round < 40; round += 1) {
      const claimed = await claim(account);
      attempts += claimed.length;
      await Promise.all(claimed.map((each) => end(ended(each, false))));
    }
  };
  await Promise.all([replica(), replica(), replica()]);
  assert.equal(attempts, 20);
  const suspended = await read(at);
  assert.equal(suspended.consecutive_failures, 20);
  assert.ok(suspended.suspended_until !== null && suspended.suspended_until.getTime() > Date.now() + 3_500_000);
  await pool.query("update endpoints set suspended_until = now() - interval '1 second' where id = $1", [at.id]);
  const probes = (await Promise.all([claim(account), claim(account)])).flat();
  assert.equal(probes.length, 1);
  await end(ended(probes[0] as Claimed, false));
  assert.ok(((await read(at)).suspended_until?.getTime() ?? 0) > Date.now());
  await reinstate(pool, [at.id]);
  assert.equal((await claim(account)).length, 8);
});

test("ladder: the next attempt is due after its step by the test clock, the fifth failure is the last", async () => {
  const account = "acct_ladder";
  await endpoint(account);
  await insert(event(account, "pay_1", 1));
  let offset = 0;
  for (const [step, wait_s] of [0, 60, 300, 1800, 7200].entries()) {
    // Half a minute before its time it is not made, whatever this machine does meanwhile.
    await advance(account, offset + wait_s * 1000 - (step === 0 ? 0 : 30_000));
    if (step > 0) assert.deepEqual(await claim(account), [], `not before ${wait_s} s`);
    offset += wait_s * 1000;
    await advance(account, offset + 1_000);
    const [claimed] = await claim(account);
    assert.ok(claimed !== undefined, `attempt ${step + 1}`);
    await end(ended(claimed, false));
    offset += 1_000;
  }
  await advance(account, offset + 86_400_000);
  assert.deepEqual(await claim(account), []);
  const { rows } = await pool.query<{ status: string; attempts: number }>(
    "select status, attempts from deliveries where account = $1",
    [account],
  );
  assert.deepEqual(rows, [{ status: "failed", attempts: 5 }]);
});

test("crash: a lease that ran out is taken by another, and the first runner's late result moves nothing", async () => {
  const account = "acct_crash";
  const at = await endpoint(account);
  await insert(event(account, "pay_1", 1));
  const [lost] = await claim(account, { lease_ms: 1 });
  await new Promise((wake) => setTimeout(wake, 20));
  const [taken] = await claim(account);
  assert.ok(lost !== undefined && taken !== undefined && lost.id === taken.id && taken.no > lost.no);
  await end(ended(lost, false));
  assert.equal((await read(at)).consecutive_failures, 1);
  await end(ended(taken, true));
  assert.equal((await read(at)).consecutive_failures, 0);
  const { rows } = await pool.query("select status, attempts from deliveries where account = $1", [account]);
  assert.deepEqual(rows, [{ status: "delivered", attempts: 1 }]);
});

test("log: each attempt has its row, stamped by the test clock, and is forgotten with its day", async () => {
  const account = "acct_log";
  await endpoint(account);
  await advance(account, 3_600_000);
  await insert(event(account, "pay_1", 1));
  const [claimed] = await claim(account);
  assert.ok(claimed !== undefined);
  await end(ended(claimed, false));
  const read_log = async () => {
    const { rows } = await pool.query("select * from attempts where delivery_id = $1", [claimed.id]);
    return rows;
  };
  const [logged, ...more] = await read_log();
  assert.deepEqual(more, []);
  assert.deepEqual(
    [logged.status_code, logged.duration_ms, logged.error, logged.answer.toString(), logged.endpoint_id],
    [500, 1, "answered 500", "not now", claimed.endpoint_id],
  );
  assert.ok(logged.at.getTime() > Date.now() + 3_500_000);
  await forgetAttempts(pool, 60);
  assert.equal((await read_log()).length, 1);
  const days_ago = (days: number) => ({ ...ended(claimed, false), at: new Date(Date.now() - days * 86_400_000) });
  await end(days_ago(30), days_ago(31), days_ago(40));
  assert.equal(await forgetAttempts(pool, 30), 2, "the days that lie behind the thirty");
  assert.equal((await read_log()).length, 2);
});

test("inactive: events wait and burn no attempt; what waited beyond 72 hours is failed", async () => {
  const account = "acct_inactive";
  const at = await endpoint(account);
  await pool.query("update endpoints set is_active = false where id = $1", [at.id]);
  await insert(event(account, "pay_1", 1));
  assert.deepEqual(await claim(account), []);
  await failOverdue(pool, 259_200_000, new Date());
  assert.equal((await readQueue(pool, new Date())).waiting > 0, true);
  await advance(account, 259_201_000);
  await failOverdue(pool, 259_200_000, new Date());
  const { rows } = await pool.query("select status, attempts from deliveries where account = $1", [account]);
  assert.deepEqual(rows, [{ status: "failed", attempts: 0 }]);
});

test("deleted in between: results of an endpoint that is gone change nothing and fail nothing", async () => {
  const account = "acct_gone";
  const at = await endpoint(account);
  await insert(event(account, "pay_1", 1));
  await insert(event(account, "pay_2", 1));
  const claimed = await claim(account, { limit: 1 });
  assert.ok(await deleteEndpoint(pool, account, at.id));
  assert.equal((await waitingEndpoints(pool, new Date())).includes(at.id), false);
  await end(...claimed.map((each) => ended(each, false)));
  while ((await forgetRemoved(pool)) !== null);
  for (const table of ["deliveries", "queue", "flights"]) {
    const { rowCount } = await pool.query(`select 1 from ${table} where endpoint_id = $1`, [at.id]);
    assert.equal(rowCount, 0, table);
  }
});

test("claim_due: an account's endpoints share its attempts evenly, whatever one of them has waiting", async () => {
  const account = "acct_share";
  const [one, two, three] = [await endpoint(account), await endpoint(account), await endpoint(account)];
  await insert(...Array.from({ length: 30 }, (_, i) => event(account, `pay_${i}`, 1)));
  const claimed = await claim(account, { per_account: 10 });
  const at = (of: Endpoint) => claimed.filter(({ endpoint_id }) => endpoint_id === of.id).length;
  assert.deepEqual([at(one), at(two), at(three)], [3, 3, 3]);
});
