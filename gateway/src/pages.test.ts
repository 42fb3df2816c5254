// What is no RPC: callbacks, the simulator's page, the documentation, health.

import assert from "node:assert/strict";
import { test } from "node:test";
import { refuse } from "@cauri/money/refusal";
import type { ReceiveCallbackRequest, SimulatorPage } from "@cauri/proto/ts/cauri/rails/v1/rails";
import { openDoor } from "./testing.ts";

const PAGE: SimulatorPage = {
  reference: "PAY-TEST7F3K9Q2M",
  amount: "1500 XOF",
  merchantName: `<script>alert("1")</script> & Sons`,
  description: "Order 1042",
  state: "open",
  nextUrl: "",
};

test("callbacks: rails gets headers and bytes as they came", async (t) => {
  const seen: ReceiveCallbackRequest[] = [];
  const door = await openDoor(t, {
    rails: {
      receiveCallback: async (request) => {
        seen.push(request);
        return { authentic: request.connector === "simulator", connectorKnown: request.connector !== "nobody" };
      },
    },
  });
  const bytes = Buffer.from([0xff, 0x00, 0x7b]);
  const post = (connector: string, body: string | Buffer = bytes) =>
    door.send({
      method: "POST",
      path: `/callbacks/${connector}`,
      headers: { "x-signature": "t=1", "content-type": "text/odd" },
      body,
    });
  assert.equal((await post("simulator")).status, 200);
  assert.equal((await post("orange")).status, 401);
  assert.equal((await post("nobody")).status, 404);
  assert.equal((await post("../x")).status, 404);
  assert.equal((await post("simulator", Buffer.alloc(262_145))).status, 413);
  assert.deepEqual(Buffer.from(seen[0]?.body ?? []), bytes);
  assert.equal(seen[0]?.headers["x-signature"], "t=1");
  assert.equal(seen[0]?.headers["connection"], undefined);
  assert.equal((await door.send({ path: "/callbacks/simulator" })).status, 405);
});

test("callbacks: a rail that is away is answered 503, so that the operator repeats", async (t) => {
  const door = await openDoor(t, {
    rails: { receiveCallback: async () => refuse("temporarily_unavailable", "later") },
  });
  const answer = await door.send({ method: "POST", path: "/callbacks/simulator", body: "{}" });
  assert.equal(answer.status, 503);
  assert.equal(answer.headers["retry-after"], "1");
});

test("simulator page: it says what it is, escapes what merchants wrote, and runs nothing", async (t) => {
  const door = await openDoor(t, { rails: { getSimulatorPage: async () => PAGE } });
  const page = await door.send({ path: "/simulator/tok" });
  assert.equal(page.status, 200);
  assert.match(page.text, /no real money moves/);
  assert.match(page.text, /1500 XOF/);
  assert.ok(!page.text.includes("<script"), "the merchant's name is text");
  assert.match(page.text, /&#60;script&#62;/);
  for (const decision of ["approve", "decline", "cancel"]) assert.match(page.text, new RegExp(`value="${decision}"`));
  const policy = String(page.headers["content-security-policy"]);
  assert.match(policy, /default-src 'none'/);
  assert.ok(!policy.includes("unsafe"), policy);
  assert.equal(page.headers["cache-control"], "no-store");
  assert.equal(page.headers["referrer-policy"], "no-referrer");
});

test("simulator page: a decision leads to the merchant's page, else back to the result", async (t) => {
  const next = ["https://shop.example.com/thanks?x=1&y=2", "", "javascript:alert(1)"];
  const decisions: string[] = [];
  const door = await openDoor(t, {
    rails: {
      decideSimulatorPage: async ({ decision }) => {
        decisions.push(decision);
        return { ...PAGE, state: "approved", nextUrl: next.shift() ?? "" };
      },
      getSimulatorPage: async () => ({ ...PAGE, state: "declined", nextUrl: "https://shop.example.com/basket" }),
    },
  });
  const headers = { "content-type": "application/x-www-form-urlencoded" };
  const decide = (body: string) => door.send({ method: "POST", path: "/simulator/tok", headers, body });
  const places: unknown[] = [];
  for (let i = 0; i < 3; i += 1) {
    const answer = await decide("decision=approve");
    places.push([answer.status, answer.headers.location]);
  }
  assert.deepEqual(places, [
    [303, "https://shop.example.com/thanks?x=1&y=2"],
    [303, "/simulator/tok"],
    [303, "/simulator/tok"],
  ]);
  assert.equal((await decide("decision=steal")).status, 422);
  assert.deepEqual(decisions, ["approve", "approve", "approve"]);
  const result = await door.send({ path: "/simulator/tok" });
  assert.match(result.text, /Payment declined/);
  assert.match(result.text, /href="https:\/\/shop\.example\.com\/basket"/);
  assert.ok(!result.text.includes("<form"));
});

test("simulator page: an unknown token is a page, not an envelope", async (t) => {
  const door = await openDoor(t, { rails: { getSimulatorPage: async () => refuse("not_found", "no such page") } });
  const answer = await door.send({ path: "/simulator/nothing" });
  assert.equal(answer.status, 404);
  assert.match(String(answer.headers["content-type"]), /text\/html/);
});

test("simulator page: a token that no text can be is not there, and nobody is asked", async (t) => {
  const door = await openDoor(t, { rails: { getSimulatorPage: async () => assert.fail("it was reached") } });
  assert.equal((await door.send({ path: "/simulator/%00" })).status, 404);
});

test("docs: the description needs a key under /v1 and none under /docs; the page asks nobody else", async (t) => {
  const door = await openDoor(t);
  assert.equal((await door.send({ path: "/v1/openapi.json" })).status, 401);
  const headers = { "x-api-key": door.key({ scopes: [] }) };
  const keyed = await door.send({ path: "/v1/openapi.json", headers });
  const open = await door.send({ path: "/docs/openapi.json" });
  assert.deepEqual(keyed.json, open.json);
  assert.equal(open.json.openapi, "3.1.0");
  assert.equal((await door.send({ method: "POST", path: "/docs" })).status, 405);
});

test("docs: page, script and style are our own files, and the policy lets a browser ask nobody else", async (t) => {
  const door = await openDoor(t);
  const page = await door.send({ path: "/docs" });
  const policy = String(page.headers["content-security-policy"]).split("; ");
  assert.equal(policy[0], "default-src 'none'");
  const sources = policy.flatMap((directive) => directive.split(" ").slice(1));
  assert.deepEqual([...new Set(sources)].sort(), ["'none'", "'self'", "'unsafe-inline'", "data:"]);
  assert.ok(policy.includes("script-src 'self'"), "no script but ours, none in the page, no eval");
  const linked = [...page.text.matchAll(/(?:src|href|action)="([^"]*)"/g)].map(([, target = ""]) => target);
  const files = linked.filter((target) => target !== "data:,");
  assert.equal(files.length, 5);
  for (const path of files) {
    const file = await door.send({ path });
    assert.equal(file.status, 200, path);
    assert.equal(file.headers["x-content-type-options"], "nosniff", path);
    const pressed = await fetch(door.base_url + path, { headers: { "accept-encoding": "gzip" } });
    assert.equal(pressed.headers.get("content-encoding"), "gzip", path);
    assert.equal(await pressed.text(), file.text, path);
    const targets = path.endsWith(".css") ? [...file.text.matchAll(/url\(["']?(.{5})/g)].map(([, begin]) => begin) : [];
    assert.ok(
      targets.every((begin) => begin === "data:"),
      `${path} asks for ${targets.join()}`,
    );
  }
});

test("health: alive and ready ask for no key", async (t) => {
  const door = await openDoor(t);
  assert.deepEqual((await door.send({ path: "/healthz" })).json, { status: "ok" });
  assert.deepEqual((await door.send({ path: "/readyz" })).json, { status: "ready" });
  assert.equal((await door.send({ path: "/metrics" })).status, 404, "numbers are the admin door's");
});
