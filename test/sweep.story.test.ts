// Another account's ids in each position that the public description has: in paths, in bodies, in filters. A new route is
// in it by itself, and fails here until the sweep has something of its kind to try it with.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type Node, type Operation, operationsOf, resolve, schemaOfBody } from "../tools/fuzz-requests.ts";
import { type Answer, type Api, call, type Merchant, merchant, paymentBody } from "./house.ts";
import { creations, equipped } from "./one-of-each.ts";
import { type Receiver, startReceiver } from "./receiver.ts";

/** Fields that name what belongs to no merchant alone, and the one that is meant to name somebody else. */
const SHARED = ["asset_id", "platform_id", "from_platform_id", "to_platform_id", "destination_account_id"];
/** Collections that a test key and a live key see alike. */
const OF_BOTH_MODES = ["webhooks"];

let document: Node;
let receiver: Receiver;
let owner: Merchant;
let stranger: Merchant;
/** Under which names the owner's things can be asked for, by collection; and how each looks to its owner. */
const names: { [collection: string]: string[] } = {};
const looks: { [path: string]: string } = {};
/** What a body's field would take from the owner, by the field. */
const values: { [field: string]: string } = {};

before(async () => {
  receiver = await startReceiver();
  [owner, stranger] = await Promise.all([equipped("Owner"), equipped("Stranger")]);
  const third = await merchant("Third");
  document = (await owner.test.get("/v1/openapi.json")).body;
  const made: { [path: string]: string } = {};
  for (const [path, bodyOf] of Object.entries(creations(third.account_id, receiver.url))) {
    if (!Object.hasOwn(document["paths"] as Node, path)) continue;
    const collection = path.split("/")[2] ?? "";
    const body = collection === "webhooks" ? {} : { client_ref: `owned-${collection}` };
    const answer = await owner.test.post(path, { ...bodyOf(made), ...body });
    assert.equal(answer.status, 201, `${path}: ${answer.text}`);
    const { id, reference, client_ref } = answer.body;
    made[path] = id;
    names[collection] = [String(id), reference, client_ref].filter((name) => name !== undefined);
  }
  // After all of them: a refund changes the look of its payment.
  for (const [collection, [id]] of Object.entries(names)) {
    const path = `/v1/${collection}/${id}`;
    looks[path] = (await owner.test.get(path)).text;
  }
  values["payment_id"] = made["/v1/payments"] ?? "";
});
after(() => receiver.close());

const collectionOf = ({ path }: Operation) => path.split("/")[2] ?? "";
const operations = (of: (operation: Operation) => boolean) => operationsOf(document).filter(of);

/** In the form of an id of ours, and nobody's. */
function nobodys(id = ""): string {
  return /^\d+$/.test(id) ? "999999999" : `${id.split("_")[0]}_01KAE8QK8Q5V6ZJ9T2N4B7C1XW`;
}

/** What is required, by its examples. */
function smallest(node: Node): Record<string, unknown> {
  const { properties = {}, required = [] } = resolve(document, node) as {
    properties?: { [name: string]: Node };
    required?: string[];
  };
  return Object.fromEntries(
    required.map((name) => {
      const field = resolve(document, properties[name] ?? {});
      const [example] = (field["examples"] as unknown[] | undefined) ?? [smallest(field)];
      return [name, example];
    }),
  );
}

function send(from: Api, { verb, told }: Operation, path: string, body?: Record<string, unknown>): Promise<Answer> {
  const schema = schemaOfBody(told);
  return call(from.key, verb, path, schema === undefined ? {} : { body: body ?? smallest(schema) });
}

/** The same words for what is somebody else's and for what is nobody's. */
function isSame(one: Answer, other: Answer, what: string): void {
  assert.deepEqual([one.status, one.body], [other.status, other.body], what);
}

test("ids in a path: another account's, and the other mode's, are 404 in the words of what never was", async () => {
  const live = await owner.key("live");
  const named = operations(({ path }) => path.includes("{"));
  assert.ok(named.length >= 8, `${named.length} operations`);
  for (const operation of named) {
    const collection = collectionOf(operation);
    const known = names[collection] ?? [];
    assert.ok(known.length > 0, `${operation.name}: give the sweep a thing of its kind`);
    const at = (name: string) => operation.path.replace(/\{[^}]*\}/g, name);
    const nothing = await send(stranger.test, operation, at(nobodys(known[0])));
    assert.deepEqual([nothing.status, nothing.body.error.code], [404, "not_found"], operation.name);
    for (const name of known) {
      isSame(await send(stranger.test, operation, at(name)), nothing, `${operation.name} with ${name}`);
      if (OF_BOTH_MODES.includes(collection)) continue;
      isSame(await send(live, operation, at(name)), nothing, `${operation.name} in live mode with ${name}`);
    }
  }
});

test("ids in a body: another account's are refused in the words of what never was", async () => {
  for (const operation of operations(({ told }) => schemaOfBody(told) !== undefined)) {
    const schema = schemaOfBody(operation.told) as Node;
    const { properties = {} } = resolve(document, schema) as { properties?: { [name: string]: Node } };
    for (const field of Object.keys(properties).filter((name) => /_ids?$/.test(name) && !SHARED.includes(name))) {
      const theirs = values[field];
      assert.ok(
        theirs !== undefined,
        `${operation.name}: give the sweep a value of ${field}, or say that it is shared`,
      );
      const ask = (value: string) =>
        send(stranger.test, operation, operation.path, { ...smallest(schema), [field]: value });
      const nothing = await ask(nobodys(theirs));
      assert.ok([404, 422].includes(nothing.status), `${operation.name}: ${nothing.text}`);
      isSame(await ask(theirs), nothing, `${operation.name} with ${field}`);
    }
  }
});

test("lists: another account's things are in none, whatever is filtered by", async () => {
  const lists = operations(({ verb, path }) => verb === "GET" && names[path.split("/")[2] ?? ""] !== undefined);
  for (const operation of lists.filter(({ path }) => path.split("/").length === 3)) {
    const collection = collectionOf(operation);
    const filters = ((operation.told["parameters"] ?? []) as Node[]).map((one) => resolve(document, one)["name"]);
    const by_name = filters.includes("client_ref") ? [`?client_ref=owned-${collection}`] : [];
    for (const query of ["", ...by_name]) {
      const { status, body } = await stranger.test.get(operation.path + query);
      assert.deepEqual([status, body.total ?? body.data.length], [200, 0], operation.path + query);
    }
  }
});

test("a client_ref of another account's is free, and what was swept looks to its owner as before", async () => {
  const again = await stranger.test.post("/v1/payments", paymentBody("01", { client_ref: "owned-payments" }));
  assert.equal(again.status, 201, again.text);
  const facts = (text: string) => {
    const { updated_at: _, status: __, completed_at: ___, last_delivery_at: ____, ...rest } = JSON.parse(text);
    return { ...rest, last_success_at: null, last_failure_at: null, consecutive_failures: 0 };
  };
  for (const [path, text] of Object.entries(looks)) {
    assert.deepEqual(facts((await owner.test.get(path)).text), facts(text), path);
  }
});
