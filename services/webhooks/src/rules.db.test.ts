// The rules on a real PostgreSQL: random histories move the stores exactly as the plain model moves, and two replicas
// that race suspend and retry to the second. CAURI_HISTORIES says how many histories, CAURI_SEED which ones.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { deriveId, newId } from "@cauri/money/ids";
import { openCipher } from "@cauri/store/cipher";
import { setOffset } from "@cauri/store/clock";
import { openPool, type Pool, transact } from "@cauri/store/pool";
import { PATIENCE_MS, type TestDatabase, testDatabase } from "@cauri/store/testing";
import fc from "fast-check";
import { type Event, insertDeliveries } from "./arrival-store.ts";
import { type Claimed, claimDue, returnLost } from "./delivery-store.ts";
import type { Dialer } from "./dialer.ts";
import { insertEndpoint, lockAccount, reinstate } from "./endpoint-store.ts";
import { bounds, type Step, step, takeOldest } from "./history-testing.ts";
import { type Bounds, EndpointModel } from "./model-testing.ts";
import { beginAnew, lockEndpoints } from "./replay-store.ts";
import { endAndTake, endAttempts } from "./result-store.ts";
import { newSecret, sealSecret } from "./secret.ts";
import { openSender, type Sender } from "./sender.ts";
import { failOverdue } from "./upkeep-store.ts";

const HISTORIES = Number(process.env["CAURI_HISTORIES"] ?? "25");
const SEED = process.env["CAURI_SEED"];
const RULES = { ladder_s: [60, 300, 1800, 7200], suspend_ms: 3_600_000 };
const KEEP_MS = 259_200_000;

let database: TestDatabase;
/** Two replicas of the room: each with connections of its own. */
let pools: readonly [Pool, Pool];
before(async () => {
  database = await testDatabase("webhooks", [join(import.meta.dirname, "..", "migrations")]);
  const replica = () =>
    openPool({ url: database.url, name: "replica", max: 4, by_index: true, patience_ms: PATIENCE_MS });
  pools = [replica(), replica()];
});
after(async () => {
  await Promise.all(pools.map((pool) => pool.end()));
  await database.close();
});

const cipher = openCipher(`k1:${randomBytes(32).toString("base64")}`);
let serial = 0;
async function endpoint(account: string): Promise<bigint> {
  serial += 1;
  const made = await transact(pools[0], async (tx) => {
    await lockAccount(tx, account);
    const operation_id = `op_${serial}`;
    const secret_sealed = sealSecret(cipher, { operation_id }, newSecret());
    const rest = { description: null, subscribed_events: [], standard_headers: false, secret_sealed };
    return insertEndpoint(tx, { operation_id, account, url: `https://shop.example.com/${serial}`, ...rest });
  });
  assert.ok(made !== null);
  return made.id;
}

function event(account: string, operation_id: string, version: bigint): Event {
  serial += 1;
  const facts = { event: "payment.success", account, mode: "test" as const, body: "{}", occurred_at: new Date() };
  return { ...facts, event_id: newId("evt", serial), operation_id, version };
}

function ended(claimed: Claimed, delivered: boolean) {
  const error = delivered ? null : "answered 500";
  return { claimed, at: new Date(), attempt: { delivered, status_code: 200, duration_ms: 1, error, answer: null } };
}

/** One account with two endpoints, in the stores and in the model. */
class History {
  readonly account = newId("acct", Date.now());
  readonly base_ms = Date.now();
  readonly models = new Map<bigint, EndpointModel>();
  readonly flying: Claimed[] = [];
  readonly bounds: Bounds & { readonly failures: number };
  versions = 0n;
  now_s = 0;

  constructor(of: Bounds & { readonly failures: number }) {
    this.bounds = of;
  }

  get now(): Date {
    return new Date(this.base_ms + this.now_s * 1000);
  }

  get endpoints(): bigint[] {
    return [...this.models.keys()];
  }

  async open(): Promise<void> {
    const { failures } = this.bounds;
    for (const _ of [1, 2])
      this.models.set(await endpoint(this.account), Object.assign(new EndpointModel(), { failures }));
    await pools[0].query("update endpoints set consecutive_failures = $2 where account = $1", [this.account, failures]);
  }

  async run(one: Step): Promise<void> {
    if (one.do === "events") await this.arrive(one.operations, one.at_once);
    else if (one.do === "claim") await this.claim(one.replica);
    else if (one.do === "end") await (one.refills ? this.refill(one.of) : this.end(one.of, one.delivered));
    else if (one.do === "lose") await this.lose(one.of);
    else if (one.do === "pass") {
      this.now_s += one.s;
      await transact(pools[0], (tx) => setOffset(tx, this.account, BigInt(this.now_s * 1000)));
    } else if (one.do === "test") {
      const id = this.endpoints[one.at] ?? 0n;
      await reinstate(pools[0], [id]);
      this.models.get(id)?.reinstate();
    } else if (one.do === "switch") {
      const id = this.endpoints[one.at] ?? 0n;
      await pools[0].query("update endpoints set is_active = $2 where id = $1", [id, one.on]);
      Object.assign(this.models.get(id) ?? {}, { is_active: one.on });
    } else if (one.do === "replay") await this.replay();
    else {
      while ((await failOverdue(pools[0], KEEP_MS, this.now)) > 0);
      for (const model of this.models.values()) model.giveUp(this.now_s);
    }
    await this.compare(JSON.stringify(one));
  }

  /** Events in one batch; `at_once` if their writer may send what nothing waits before. */
  async arrive(operations: readonly number[], at_once: boolean): Promise<void> {
    const events = operations.map((of, at) => event(this.account, `pay_${of}`, this.versions + BigInt(at)));
    this.versions += BigInt(events.length);
    const may_send = at_once ? { ...this.bounds, lease_ms: 600_000, timeout_ms: 1_000, now: this.now } : null;
    const { claimed } = await insertDeliveries(pools[0], events.toReversed(), may_send);
    for (const [id, model] of this.models) {
      const fresh = events.map(({ event_id }) => deriveId("dl", event_id, String(id)));
      for (const [at, each] of events.entries())
        model.arrive(fresh[at] ?? "", each.operation_id, each.version, this.now_s);
      const mine = claimed.filter(({ endpoint_id }) => endpoint_id === id);
      assert.deepEqual(
        mine.map((each) => each.id),
        at_once ? model.direct(fresh, this.now_s, this.models.size, this.bounds) : [],
        "what may go at once, the earlier event first",
      );
      for (const { id: of, no } of mine) Object.assign(model.deliveries.get(of) ?? {}, { flight: { no, live: true } });
    }
    this.flying.push(...claimed);
  }

  /** Both replicas at once; together they may take what the model lets go, the oldest first. */
  async claim(first: number): Promise<void> {
    const options = {
      ...this.bounds,
      limit: 1_000,
      lease_ms: 600_000,
      now: this.now,
      endpoints: this.endpoints,
      patient: true,
    };
    const order = first === 0 ? pools : [pools[1], pools[0]];
    await Promise.all(pools.map(returnLost));
    for (const model of this.models.values()) model.returnLost();
    const rounds = await Promise.all(order.map((pool) => transact(pool, (tx) => claimDue(tx, options))));
    const taken = rounds.flatMap(({ claimed }) => claimed);
    for (const [id, model] of this.models) {
      const { from, count } = model.sendable(this.now_s, this.models.size, this.bounds);
      takeOldest(
        from,
        count,
        taken.filter(({ endpoint_id }) => endpoint_id === id),
      );
    }
    this.flying.push(...taken);
  }

  /** Some have arrived, and as many go out in their places where nothing has failed since the last success. */
  async refill(of: readonly number[]): Promise<void> {
    const batch = this.draw(of);
    const options = { ...this.bounds, lease_ms: 600_000, endpoints: this.endpoints };
    const results = batch.map((claimed) => ended(claimed, true));
    const taken = await endAndTake(pools[1], results, { ...RULES, now: this.now }, options);
    for (const [id, model] of this.models) {
      const is_well = model.failures === 0 && model.suspended_until_s === null;
      const arrived = batch.filter(({ endpoint_id }) => endpoint_id === id);
      const freed = arrived.filter((one) => model.end(one.id, one.no, true, this.now_s)).length;
      const { from, count } = model.sendable(this.now_s, this.models.size, this.bounds);
      takeOldest(
        from,
        is_well ? Math.min(count, freed) : 0,
        taken.filter(({ endpoint_id }) => endpoint_id === id),
      );
    }
    this.flying.push(...taken);
  }

  draw(of: readonly number[]): Claimed[] {
    return of.flatMap((at) => (this.flying.length === 0 ? [] : this.flying.splice(at % this.flying.length, 1)));
  }

  async end(of: readonly number[], delivered: boolean): Promise<void> {
    const batch = this.draw(of);
    await transact(pools[1], (tx) =>
      endAttempts(
        tx,
        batch.map((claimed) => ended(claimed, delivered)),
        { ...RULES, now: this.now },
      ),
    );
    for (const { endpoint_id, id, no } of batch) this.models.get(endpoint_id)?.end(id, no, delivered, this.now_s);
  }

  /** Its runner seems dead: the lease has run out. It may end all the same, before or after somebody took it over. */
  async lose(of: number): Promise<void> {
    const claimed = this.flying[of % Math.max(1, this.flying.length)];
    if (claimed === undefined) return;
    await pools[0].query("update flights set lease_until = '-infinity' where no = $1", [claimed.no]);
    const flight = this.models.get(claimed.endpoint_id)?.deliveries.get(claimed.id)?.flight;
    if (flight?.no === claimed.no) flight.live = false;
  }

  async replay(): Promise<void> {
    serial += 1;
    await transact(pools[0], async (tx) => {
      await lockEndpoints(tx, this.account, undefined);
      const failed = [...this.models.values()].flatMap(({ deliveries }) => [...deliveries.values()]);
      const ids = failed.filter(({ status }) => status === "failed").map(({ id }) => id);
      assert.equal(await beginAnew(tx, ids, `replay_${serial}`), ids.length);
    });
    for (const model of this.models.values()) model.replayFailed(this.now_s);
  }

  /** Every row that stands is what the model says, and the queue holds what is pending. */
  async compare(after_step: string): Promise<void> {
    const { rows } = await pools[0].query(
      `select id, consecutive_failures as failures, suspended_until from endpoints where account = $1 order by id`,
      [this.account],
    );
    const healths = [...this.models].map(([id, { failures, suspended_until_s: s }]) => ({
      ...{ id, failures },
      suspended_until: s === null ? null : new Date(this.base_ms + s * 1000),
    }));
    assert.deepEqual(rows, healths, after_step);
    const { rows: stored } = await pools[0].query(
      `select d.id, d.status, d.attempts, f.no, q.delivery_id is not null as queued, coalesce(q.attempts = 0, false) as first
         from deliveries d left join flights f on f.delivery_id = d.id left join queue q on q.delivery_id = d.id
        where d.account = $1 order by d.id`,
      [this.account],
    );
    const wanted = [...this.models.values()].flatMap(({ deliveries }) => [...deliveries.values()]);
    assert.deepEqual(
      stored,
      wanted
        .map(({ id, status, attempts, flight }) => {
          const queued = status === "pending" && flight === null;
          return { id, status, attempts, no: flight?.no ?? null, queued, first: queued && attempts === 0 };
        })
        .sort((a, b) => (a.id < b.id ? -1 : 1)),
      after_step,
    );
  }
}

/** A replica of the pump on a clock that stands still, with a dialer that answers as it is told. */
function replica(pool: Pool, now: () => number, post: Dialer["post"]): Sender {
  return openSender({
    ...{
      pool,
      cipher,
      now,
      dialer: { post } as Dialer,
      log: { info() {}, error: (fields) => assert.fail(String(fields)) },
    },
    ...{ parallel: 64, per_endpoint: 8, per_account: 40, timeout_ms: 4_000, grace_ms: 1_000 },
    ...{ ...RULES, wake: () => {}, observe: () => {} },
  });
}

/** Lets both replicas race until neither finds anything. */
async function race(replicas: readonly Sender[]): Promise<void> {
  for (let quiet = 0; quiet < 3; ) {
    for (const each of replicas) each.hint();
    const started = await Promise.all(replicas.map((each) => each.pump()));
    quiet = started.every((count) => count === 0) && replicas.every((each) => each.inFlight() === 0) ? quiet + 1 : 0;
    await new Promise((later) => setTimeout(later, 5));
  }
}

test("suspension: two replicas race, the 20th failure suspends for an hour to the second, and one probe goes out after it", async () => {
  const account = newId("acct", Date.now());
  const id = await endpoint(account);
  await insertDeliveries(
    pools[0],
    Array.from({ length: 60 }, (_, at) => event(account, `pay_s${at}`, 1n)),
    null,
  );
  const start_ms = Date.UTC(2027, 0, 1);
  let now_ms = start_ms;
  let sent = 0;
  const replicas = pools.map((pool) =>
    replica(
      pool,
      () => now_ms,
      async () => {
        sent += 1;
        await new Promise((later) => setTimeout(later, Math.random() * 20));
        return { delivered: false, status_code: 503, duration_ms: 1, error: "answered 503", answer: null };
      },
    ),
  );
  const standing = async () => {
    const { rows } = await pools[0].query<{ failures: number; until: Date }>(
      "select consecutive_failures as failures, suspended_until as until from endpoints where id = $1",
      [id],
    );
    return [sent, rows[0]?.failures, ((rows[0]?.until.getTime() ?? 0) - start_ms) / 1000];
  };
  await race(replicas);
  assert.deepEqual(await standing(), [20, 20, 3600]);
  now_ms = start_ms + 3_599_000;
  await race(replicas);
  assert.deepEqual(await standing(), [20, 20, 3600]);
  now_ms = start_ms + 3_600_000;
  await race(replicas);
  assert.deepEqual(await standing(), [21, 21, 7200], "one probe, and another hour");
  await Promise.all(replicas.map((each) => each.stop()));
  const { rows } = await pools[0].query("select sum(attempts)::int as spent from deliveries where endpoint_id = $1", [
    id,
  ]);
  assert.deepEqual(rows, [{ spent: 21 }], "what waited has lost no attempt");
});

test("ladder: two replicas race, five attempts are made, each due to the millisecond after the one before", async () => {
  const account = newId("acct", Date.now());
  const id = await endpoint(account);
  await insertDeliveries(pools[0], [event(account, "pay_l", 1n)], null);
  let sent = 0;
  const replicas = pools.map((pool) =>
    replica(pool, Date.now, async () => {
      sent += 1;
      return { delivered: false, status_code: 503, duration_ms: 1, error: "answered 503", answer: null };
    }),
  );
  const delivery = async () => {
    const { rows } = await pools[0].query<{ due_at: Date; status: string }>(
      "select due_at, status from deliveries where endpoint_id = $1",
      [id],
    );
    assert.ok(rows[0] !== undefined);
    return rows[0];
  };
  for (let attempt = 1, offset_ms = 0; attempt <= 5; attempt += 1) {
    const [from, step_s] = [Date.now() + offset_ms, RULES.ladder_s[attempt - 1]];
    await race(replicas);
    assert.equal(sent, attempt);
    const { due_at, status } = await delivery();
    if (step_s === undefined) assert.equal(status, "failed");
    else {
      const wait_ms = due_at.getTime() - step_s * 1000;
      assert.ok(
        wait_ms >= from && wait_ms <= Date.now() + offset_ms,
        `attempt ${attempt + 1} is due ${step_s} s later`,
      );
      // Fifty seconds before its time it is not made, whatever this machine does meanwhile.
      for (const before_ms of [50_000, 0]) {
        offset_ms = due_at.getTime() - before_ms - Date.now();
        await transact(pools[0], (tx) => setOffset(tx, account, BigInt(offset_ms)));
        if (before_ms > 0) await race(replicas);
        assert.equal(sent, attempt);
      }
    }
  }
  await transact(pools[0], (tx) => setOffset(tx, account, 1_000_000_000n));
  await race(replicas);
  assert.equal(sent, 5);
  await Promise.all(replicas.map((each) => each.stop()));
});

// Last, because what its accounts leave waiting would be sent by the replicas above.
test(`histories: ${HISTORIES} of them move the stores as they move the plain model`, {
  timeout: 3_600_000,
}, async (t) => {
  const seen = { suspensions: 0, failed: 0, delivered: 0 };
  await fc.assert(
    fc.asyncProperty(bounds, fc.array(step, { minLength: 20, maxLength: 50 }), async (of, steps) => {
      const history = new History(of);
      await history.open();
      for (const one of steps) {
        const suspended = [...history.models.values()].map((model) => model.suspended_until_s);
        await history.run(one);
        for (const [at, model] of [...history.models.values()].entries())
          if (model.suspended_until_s !== null && model.suspended_until_s !== suspended[at]) seen.suspensions += 1;
      }
      for (const { status } of [...history.models.values()].flatMap(({ deliveries }) => [...deliveries.values()]))
        if (status !== "pending") seen[status] += 1;
    }),
    { numRuns: HISTORIES, endOnFailure: true, ...(SEED === undefined ? {} : { seed: Number(SEED) }) },
  );
  t.diagnostic(JSON.stringify(seen));
});
