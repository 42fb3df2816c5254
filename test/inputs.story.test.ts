// Bad input: a clear error that names the field, and nothing created. Good input of every odd kind: taken as sent.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { type Answer, call, handles, type Merchant, merchant, paymentBody } from "./house.ts";

let at: Merchant;
before(async () => {
  at = await merchant("Inputs");
});

function refused(answer: Answer, status: number, code: string, begins?: string): void {
  assert.deepEqual([answer.status, answer.body?.error?.code], [status, code], answer.text);
  assert.deepEqual(Object.keys(answer.body), ["error"]);
  assert.deepEqual(Object.keys(answer.body.error).sort(), ["code", "message"]);
  if (begins !== undefined) assert.ok(answer.body.error.message.startsWith(`${begins}:`), answer.text);
}

/** What is sent over a good body, and the field that the refusal has to name. */
const wrong: readonly [string, Record<string, unknown>, string][] = [
  ["amount missing", { amount_minor: undefined }, "amount_minor"],
  ["amount null", { amount_minor: null }, "amount_minor"],
  ["amount zero", { amount_minor: 0 }, "amount_minor"],
  ["amount negative", { amount_minor: -5 }, "amount_minor"],
  ["amount a text", { amount_minor: "100" }, "amount_minor"],
  ["amount below the corridor", { amount_minor: 99 }, "amount_minor"],
  ["amount above the corridor", { amount_minor: 2_000_001 }, "amount_minor"],
  ["asset unknown", { asset_id: "ast_xxx" }, "asset_id"],
  ["asset of another platform", { asset_id: "ast_ghs" }, "platform_id"],
  ["platform unknown", { platform_id: "plt_moon" }, "platform_id"],
  ["platform without collections", { platform_id: "plt_bank_ci", payer: undefined }, "platform_id"],
  ["rail of another platform", { rail: "wave" }, "rail"],
  ["simulator as a rail", { rail: "simulator" }, "rail"],
  ["phone missing where the rail prompts it", { payer: { name: "Awa Kone" } }, "payer.phone"],
  ["payer missing where the rail prompts the phone", { payer: undefined }, "payer.phone"],
  ["phone too short", { payer: { phone: "+22507" } }, "payer.phone"],
  ["phone of another country", { payer: { phone: "+33612345678" } }, "payer.phone"],
  ["phone national", { payer: { phone: "0504030201" } }, "payer.phone"],
  ["e-mail bad", { payer: { phone: "+2250504030201", email: "awa" } }, "payer.email"],
  ["payer a text", { payer: "Awa" }, "payer"],
  ["client_ref with a blank", { client_ref: "a b" }, "client_ref"],
  ["client_ref too long", { client_ref: "x".repeat(65) }, "client_ref"],
  ["client_ref empty", { client_ref: "" }, "client_ref"],
  ["client_ref like a reference of ours", { client_ref: "PAY-7F3K9Q2MBX4T" }, "client_ref"],
  ["client_ref like an id of ours", { client_ref: "pay_01KAE8QK8Q5V6ZJ9T2N4B7C1XW" }, "client_ref"],
  ["description too long", { description: "x".repeat(141) }, "description"],
  ["description with NUL", { description: "a\u0000b" }, "description"],
  ["description with a lone surrogate", { description: "a\ud800b" }, "description"],
  ["return_url not HTTPS", { return_url: "http://shop.example.com" }, "return_url"],
  ["return_url no URL", { return_url: "shop" }, "return_url"],
  ["cancel_url a script", { cancel_url: "javascript:alert(1)" }, "cancel_url"],
  ["expiry too soon", { expires_in_s: 299 }, "expires_in_s"],
  ["expiry too late", { expires_in_s: 86_401 }, "expires_in_s"],
  ["metadata a list", { metadata: ["a"] }, "metadata"],
  ["metadata with a number", { metadata: { a: 1 } }, "metadata.a"],
  [
    "metadata of 21 keys",
    { metadata: Object.fromEntries(Array.from({ length: 21 }, (_, i) => [`k${i}`, "v"])) },
    "metadata",
  ],
  ["metadata key too long", { metadata: { ["k".repeat(41)]: "v" } }, `metadata.${"k".repeat(41)}`],
  ["metadata value too long", { metadata: { k: "v".repeat(501) } }, "metadata.k"],
];

for (const [name, change, field] of wrong) {
  test(`create_payment: ${name} is refused`, async () => {
    refused(await at.test.post("/v1/payments", paymentBody("01", change)), 422, "invalid_request", field);
  });
}

for (const token of [
  "1.5",
  "1e3",
  "100.0",
  "-0",
  "9007199254740992",
  "9007199254740991.4",
  "1500.0000000000000001",
  "01",
]) {
  test(`create_payment: the amount token ${token} is refused`, async () => {
    const raw = JSON.stringify(paymentBody("01")).replace('"amount_minor":10000', `"amount_minor":${token}`);
    refused(await call(at.test.key, "POST", "/v1/payments", { raw }), 422, "invalid_request");
  });
}

test("create_payment: nothing was created by all that", async () => {
  const answer = await at.test.get("/v1/payments");
  assert.equal(answer.body.data.filter((row: { description: string | null }) => row.description !== "kept").length, 0);
});

test("bodies: type, size, encoding, syntax", async () => {
  const send = (raw: string | Uint8Array, headers: Record<string, string> = {}) =>
    call(at.test.key, "POST", "/v1/payments", { raw, headers });
  refused(await send("{}", { "content-type": "text/plain" }), 415, "unsupported_media_type");
  refused(await send("{}", { "content-encoding": "gzip" }), 415, "unsupported_media_type");
  refused(await send("{not json"), 422, "invalid_request");
  refused(await send("[]"), 422, "invalid_request");
  refused(await send(new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x7d])), 422, "invalid_request");
  refused(await send(`{"description":"${"x".repeat(1_048_577)}"}`), 413, "payload_too_large");
});

test("fields: unknown ones are ignored, also nested and prototype keys; of duplicates the last counts", async () => {
  const raw =
    '{"amount_minor":1,"amount_minor":10000,"asset_id":"ast_xof","platform_id":"plt_mtn_ci","nonsense":{"a":[1.5]},' +
    '"__proto__":{"x":1},"constructor":5,"description":"kept","client_ref":null,' +
    '"payer":{"phone":"+2250504030201","age":7.5}}';
  const answer = await call(at.test.key, "POST", "/v1/payments", { raw });
  assert.equal(answer.status, 201, answer.text);
  assert.deepEqual([answer.body.amount_minor, answer.body.client_ref], [10_000, null]);
  assert.equal(answer.body.payer.phone, "+22505*****01");
  assert.equal("nonsense" in answer.body, false);
});

test("texts: emoji, right-to-left and combining characters come back as sent", async () => {
  const description = "café 🧺 مرحبا é".normalize("NFD");
  const metadata = { "order №": "🧾", empty: "" };
  const answer = await at.test.post("/v1/payments", paymentBody("01", { description, metadata }));
  assert.equal(answer.status, 201, answer.text);
  const read = await at.test.get(`/v1/payments/${answer.body.id}`);
  assert.deepEqual([read.body.description, read.body.metadata], [description, metadata]);
  assert.deepEqual(read.body.payer, { phone: "+22505*****01", name: "A*** K***", email: "a***@e***.com" });
});

test("methods and paths: 404, 405 with Allow, HEAD, OPTIONS, bad encodings", async () => {
  const { key } = at.test;
  refused(await call(key, "GET", "/v1/nonsense"), 404, "not_found");
  refused(await call(key, "GET", "/v1/payments/%E0%A4%A"), 404, "not_found");
  refused(await call(key, "GET", `/v1/payments/${"x".repeat(3000)}`), 404, "not_found");
  const wrongMethod = await call(key, "DELETE", "/v1/payments");
  refused(wrongMethod, 405, "method_not_allowed");
  assert.deepEqual((wrongMethod.headers.get("allow") ?? "").split(/, */).sort(), ["GET", "HEAD", "POST"]);
  refused(await call(key, "OPTIONS", "/v1/payments"), 405, "method_not_allowed");
  const head = await call(key, "HEAD", "/v1/payments");
  assert.deepEqual([head.status, head.text], [200, ""]);
});

test("headers: request id, limit, cache and location", async () => {
  const answer = await at.test.post("/v1/payments", paymentBody("01"), { "x-request-id": "story-42" });
  assert.equal(answer.status, 201, answer.text);
  assert.equal(answer.headers.get("x-request-id"), "story-42");
  assert.equal(answer.headers.get("location"), `/v1/payments/${answer.body.id}`);
  assert.equal(answer.headers.get("cache-control"), "no-store");
  assert.equal(answer.headers.get("ratelimit-policy"), '"default";q=300;w=60');
  assert.match(answer.headers.get("ratelimit") ?? "", /^"default";r=\d+;t=\d+$/);
  const none = await call(null, "GET", "/v1/payments");
  assert.ok((none.headers.get("x-request-id") ?? "").length > 0);
});

test("lists: pages, filters and their refusals", async () => {
  const shop = await merchant("Lists");
  const ids: string[] = [];
  for (let i = 0; i < 5; i += 1) {
    const row = i % 2 === 0 ? "01" : "04";
    const made = await shop.test.post("/v1/payments", paymentBody(row, { client_ref: `list-${i}` }));
    assert.equal(made.status, 201, made.text);
    ids.unshift(made.body.id);
    const first = await shop.test.get("/v1/payments?per_page=1");
    assert.equal(first.body.data[0].id, made.body.id, "what a 201 named is in the list at once");
  }
  const page = await shop.test.get("/v1/payments?page=2&per_page=2");
  assert.deepEqual(
    page.body.data.map((row: { id: string }) => row.id),
    ids.slice(2, 4),
  );
  const { data, ...envelope } = page.body;
  assert.deepEqual(envelope, { page: 2, per_page: 2, total: 5, has_more: true });
  const past = await shop.test.get("/v1/payments?page=9");
  assert.deepEqual([past.status, past.body.data, past.body.total], [200, [], 5]);
  for (const path of ["payments", "payments?status=success", "assets", "corridors", "balances"]) {
    const far = await shop.test.get(`/v1/${path}${path.includes("?") ? "&" : "?"}page=99999999999`);
    assert.deepEqual([far.status, far.body?.data, far.body?.page], [200, [], 99_999_999_999], `${path} ${far.text}`);
  }
  assert.equal((await shop.test.get("/v1/payments?status=success")).body.total, 3);
  assert.equal((await shop.test.get("/v1/payments?status=pending&per_page=1")).body.has_more, true);
  assert.equal((await shop.test.get("/v1/payments?client_ref=list-3")).body.data[0].id, ids[1]);
  assert.equal((await shop.test.get("/v1/payments?client_ref=unknown")).body.total, 0);
  const third = (await shop.test.get(`/v1/payments/${ids[2]}`)).body.created_at;
  assert.equal((await shop.test.get(`/v1/payments?created_from=${third}`)).body.total, 3);
  assert.equal((await shop.test.get(`/v1/payments?created_to=${third}`)).body.total, 2);
  assert.equal((await shop.test.get(`/v1/payments?created_from=${third}&status=success`)).body.total, 2);
  for (const query of [
    "page=0",
    "page=99999999999999999999",
    "per_page=0",
    "per_page=101",
    "page=x",
    "status=nonsense",
    "created_from=yesterday",
  ])
    refused(await shop.test.get(`/v1/payments?${query}`), 422, "invalid_request", query.split("=")[0]);
});

test("reads: by id, by reference in any case, by client_ref", async () => {
  const made = await at.test.post("/v1/payments", paymentBody("01", { client_ref: "by-three-names" }));
  for (const name of [made.body.id, made.body.reference, made.body.reference.toLowerCase(), "by-three-names"])
    assert.equal((await at.test.get(`/v1/payments/${name}`)).body.id, made.body.id, name);
});

test("reference data: assets, corridors and balances", async () => {
  const assets = await at.test.get("/v1/assets?per_page=100");
  const xof = assets.body.data.find((row: { asset_id: string }) => row.asset_id === "ast_xof");
  assert.deepEqual([xof.code, xof.scale], ["XOF", 0]);
  const corridors = await at.test.get("/v1/corridors?per_page=100");
  const mtn = corridors.body.data.find(
    (row: { platform_id: string; direction: string }) =>
      row.platform_id === "plt_mtn_ci" && row.direction === "collection",
  );
  const { corridor_id, platform_name, ...rest } = mtn;
  assert.match(corridor_id, /^cor_/);
  assert.deepEqual(rest, {
    platform_id: "plt_mtn_ci",
    country: "CI",
    asset_id: "ast_xof",
    direction: "collection",
    rails: ["mtn_momo"],
    is_open: true,
    min_amount_minor: 100,
    max_amount_minor: 2_000_000,
    fee: { percent_bps: 150, fixed_minor: 0, min_minor: null, max_minor: null },
  });
  const balances = await at.test.get("/v1/balances?per_page=100");
  assert.ok(balances.body.data.some((row: { platform_id: string }) => row.platform_id === "plt_mtn_gh"));
});

test("description of the interface: with a key under /v1, the same in public under /docs", async () => {
  const withKey = await at.test.get("/v1/openapi.json");
  const inPublic = await call(null, "GET", "/docs/openapi.json");
  assert.deepEqual([withKey.status, inPublic.status], [200, 200]);
  assert.deepEqual(withKey.body, inPublic.body);
  assert.equal(withKey.body.openapi.startsWith("3.1"), true);
  assert.ok(withKey.body.paths["/v1/payments"].post.responses["422"]);
  assert.equal((await call(null, "GET", "/v1/openapi.json")).status, 401);
  const page = await fetch(`${handles().base_url}/docs`, { redirect: "follow" });
  assert.match(await page.text(), /<html/i);
});
