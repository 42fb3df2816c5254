// SIGKILL of every process of the house in turn, PostgreSQL and nats-server too, under continuous load; then one
// reconciliation: no payment lost or doubled, the books hold, every notice was delivered at least once.
// CAURI_KILLS sets how many kills (12 unless given).

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  type Answer,
  type Api,
  balance,
  cauri,
  eventually,
  handles,
  type Merchant,
  merchant,
  paymentBody,
} from "./house.ts";
import { readyAgain, sigkill, startedAgain } from "./kills.ts";
import { type Receiver, startReceiver } from "./receiver.ts";

const KILLS = Number(process.env["CAURI_KILLS"] ?? 12);
/** Enough clients that every kill finds some request at every step of its way. */
const CLIENTS = 6;
/** Rows that end in success, each by another road. */
const ROWS = ["00", "01", "06", "07", "11"];
/** A client is not faster than this, so that one key stays below its limit over the whole run. */
const PAUSE_MS = 300;
/** Of each client's payments, which are looked for in the list all of them: a key has a limit, and a slow run makes many. */
const READ_BY_NAME = 100;

let receiver: Receiver;
before(async () => {
  receiver = await startReceiver();
});
after(() => receiver.close());

type Client = { readonly at: Merchant; readonly made: Map<string, string>; readonly stop: () => Promise<void> };

/** Repeats one creation under its key until it is answered 201, as a merchant's own retry does. */
async function createOnce(at: Merchant, ref: string, row: string): Promise<Answer["body"]> {
  const body = paymentBody(row, { client_ref: ref });
  return eventually(
    `payment ${ref}`,
    async () => {
      try {
        const answer = await at.test.post("/v1/payments", body, { "idempotency-key": ref });
        const mayRepeat = [409, 429, 502, 503].includes(answer.status) && answer.body.error.code !== "already_exists";
        assert.ok(answer.status === 201 || mayRepeat, `${ref}: ${answer.status} ${answer.text}`);
        if (answer.status === 201) return answer.body;
      } catch (error) {
        // The gateway itself was killed: the connection is refused or cut.
        if (!(error instanceof TypeError)) throw error;
      }
      await new Promise((wake) => setTimeout(wake, 250));
      return null;
    },
    (payment) => payment !== null,
    60_000,
  );
}

async function startClient(index: number): Promise<Client> {
  const at = await merchant(`Crash ${index}`);
  const answer = await at.test.post("/v1/webhooks", { url: `${receiver.url}/${index}` });
  assert.equal(answer.status, 201, answer.text);
  const made = new Map<string, string>();
  let running = true;
  const loop = (async () => {
    for (let n = 0; running; n += 1) {
      const ref = `crash-${index}-${n}`;
      const payment = await createOnce(at, ref, ROWS[(index + n) % ROWS.length] ?? "00");
      assert.equal(made.has(ref), false);
      made.set(ref, payment.id);
      await new Promise((wake) => setTimeout(wake, PAUSE_MS));
    }
  })();
  return {
    at,
    made,
    stop: () => {
      running = false;
      return loop;
    },
  };
}

async function kill(name: string): Promise<void> {
  await startedAgain(name, sigkill(name));
  await readyAgain();
}

test(`${KILLS} kills over all processes: nothing lost, nothing doubled`, {
  timeout: KILLS * 20_000 + 180_000,
}, async (t) => {
  const clients = await Promise.all(Array.from({ length: CLIENTS }, (_, index) => startClient(index)));
  const names = Object.keys(handles().processes).sort();
  for (let n = 0; n < KILLS; n += 1) {
    const name = names[n % names.length] ?? "gateway";
    await new Promise((wake) => setTimeout(wake, 700 + Math.random() * 800));
    const started = performance.now();
    await kill(name);
    t.diagnostic(`${name} killed, ready again after ${Math.round(performance.now() - started)} ms`);
  }
  await new Promise((wake) => setTimeout(wake, 1_500));
  await Promise.all(clients.map((client) => client.stop()));
  for (const client of clients) await reconcile(client);
  const { stdout } = await cauri(["ledger", "verify", "--json"]);
  const verified = JSON.parse(stdout);
  assert.deepEqual([verified.ok, verified.problems], [true, []]);
  t.diagnostic(`${clients.reduce((sum, { made }) => sum + made.size, 0)} payments reconciled`);
});

/** All of an account's payments, as the list has them. */
async function listed(reader: Api): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (let page = 1; ; page += 1) {
    const { status, body, text } = await reader.get(`/v1/payments?per_page=100&page=${page}`);
    assert.equal(status, 200, text);
    for (const { client_ref, id } of body.data) {
      assert.ok(!found.has(client_ref), `${client_ref} is there twice`);
      found.set(client_ref, id);
    }
    if (!body.has_more) return found;
  }
}

/** What the merchant was told, what the list says, what the books hold and what the endpoint heard are one. */
async function reconcile({ at, made }: Client): Promise<void> {
  // A key of its own: after a long run the client's is near its limit.
  const reader = await at.key("test");
  await eventually(
    `every payment of ${at.account_id} is collected`,
    async () => (await reader.get("/v1/payments?status=success&per_page=1")).body,
    (list) => list.total === made.size,
    120_000,
  );
  assert.deepEqual([...(await listed(reader))].sort(), [...made].sort(), "no payment beyond those answered");
  for (const [ref, id] of [...made].slice(0, READ_BY_NAME)) {
    assert.equal((await reader.get(`/v1/payments/${ref}`)).body.id, id);
  }
  const books = await balance(reader);
  assert.deepEqual([books.available_minor, books.reserved_minor, books.pending_minor], [made.size * 9_850, 0, 0]);
  for (const id of made.values()) await receiver.hears(id, ["payment.initiated", "payment.success"], 60_000);
}
