// What a receiver must take and must refuse; that every flipped bit is refused is tried on all of them.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import fc from "fast-check";
import { Webhook } from "standardwebhooks";
import { type RequestHeaders, type Verdict, verifyStandardWebhook, verifyWebhook } from "./verify.ts";

const T = 1_795_000_000;
const now = () => T * 1000;
const [secret, old, other] = [1, 2, 3].map((fill) => `whsec_${Buffer.alloc(32, fill).toString("base64")}`) as [
  string,
  string,
  string,
];
const event = {
  event: "payment.success",
  created: "2026-11-20T18:53:00.000Z",
  data: {
    id: "pay_01KAE8QK8Q5V6ZJ9T2N4B7C1XW",
    reference: "PAY-TEST3K9Q2MBX",
    merchant_reference: "é-1",
    amount: "1500",
    currency: "XOF",
    status: "success",
  },
};
const body = Buffer.from(JSON.stringify(event));

const hex = (key: string, t: number | string, raw: Uint8Array) =>
  createHmac("sha256", key).update(`${t}.`).update(raw).digest("hex");

function ours(raw: Uint8Array = body, keys: readonly string[] = [secret], t = T): Record<string, string> {
  const header = [`t=${t}`, ...keys.map((key) => `v1=${hex(key, t, raw)}`)].join(",");
  return { "content-type": "application/json", "x-service-signature": header };
}

function standard(raw: Uint8Array = body, keys: readonly string[] = [secret], t = T): Record<string, string> {
  const sign = (key: string) => new Webhook(key).sign("evt_1", new Date(t * 1000), Buffer.from(raw).toString());
  return {
    "webhook-id": "evt_1",
    "webhook-timestamp": String(t),
    "webhook-signature": keys.map(sign).join(" "),
  };
}

function reasonOf(verdict: Verdict): string {
  return verdict.verified ? "verified" : verdict.reason;
}

const forms = [
  { name: "verify_webhook", verify: verifyWebhook, sign: ours, signature: "x-service-signature" },
  { name: "verify_standard_webhook", verify: verifyStandardWebhook, sign: standard, signature: "webhook-signature" },
] as const;

for (const { name, verify, sign, signature } of forms) {
  const check = async (raw: unknown, headers: RequestHeaders, secrets: string | readonly string[] = secret) =>
    reasonOf(await verify(raw as Uint8Array, headers, secrets, { now }));

  test(`${name}: what we send is taken, as Headers or an object in any case, as any view of the bytes`, async () => {
    const verdict = await verify(body, sign(), secret, { now });
    assert.ok(verdict.verified);
    assert.deepEqual(verdict, { verified: true, event, isTest: true, signedAt: new Date(T * 1000) });
    assert.equal(await check(body, new Headers(sign())), "verified");
    const shouted = Object.fromEntries(Object.entries(sign()).map(([key, value]) => [key.toUpperCase(), [value]]));
    assert.equal(await check(body, shouted), "verified");
    assert.equal(await check(new Uint8Array(body).buffer, sign()), "verified");
    assert.equal(await check(new DataView(new Uint8Array(body).buffer), sign()), "verified");
  });

  test(`${name}: live mode is told from test mode by the signed body`, async () => {
    const live = Buffer.from(JSON.stringify({ ...event, data: { ...event.data, reference: "PAY-7F3K9Q2MBX4T" } }));
    const verdict = await verify(live, sign(live), secret, { now });
    assert.ok(verdict.verified && !verdict.isTest);
  });

  test(`${name}: during a rotation either secret will do, and one of several of ours`, async () => {
    const headers = sign(body, [secret, old]);
    assert.equal(await check(body, headers, secret), "verified");
    assert.equal(await check(body, headers, old), "verified");
    assert.equal(await check(body, headers, other), "no_match");
    assert.equal(await check(body, sign(), [other, secret]), "verified");
  });

  test(`${name}: a stamp more than 300 s away is refused, in both directions, and only then`, async () => {
    for (const [skew_s, reason] of [
      [300, "verified"],
      [-300, "verified"],
      [301, "in_future"],
      [-301, "too_old"],
      [86_400, "in_future"],
    ] as const)
      assert.equal(await check(body, sign(body, [secret], T + skew_s)), reason, `${skew_s} s`);
    const strict = { now, toleranceSeconds: 10 };
    assert.equal(reasonOf(await verify(body, sign(body, [secret], T - 11), secret, strict)), "too_old");
    for (const toleranceSeconds of [Number.NaN, -1])
      assert.equal(reasonOf(await verify(body, sign(), secret, { now, toleranceSeconds })), "too_old");
  });

  test(`${name}: every flipped bit of body, signature and stamp is refused`, async () => {
    const headers = sign();
    const bits = (bytes: number) => fc.nat(bytes * 8 - 1);
    const flip = (raw: Uint8Array, bit: number) => {
      const flipped = Uint8Array.from(raw);
      flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      return flipped;
    };
    await fc.assert(
      fc.asyncProperty(bits(body.length), async (bit) => {
        assert.equal(await check(flip(body, bit), headers), "no_match");
      }),
      { numRuns: 300 },
    );
    for (const header of Object.keys(headers).filter((key) => key !== "content-type")) {
      const text = Buffer.from(headers[header] ?? "", "latin1");
      for (let bit = 0; bit < text.length * 8; bit += 1) {
        const changed = { ...headers, [header]: Buffer.from(flip(text, bit)).toString("latin1") };
        assert.notEqual(await check(body, changed), "verified", `${header}, bit ${bit}`);
      }
    }
  });

  test(`${name}: any body that was signed is taken as it is, and nothing else by its signature`, async () => {
    await fc.assert(
      fc.asyncProperty(fc.string(), fc.string(), async (reference, appended) => {
        const raw = Buffer.from(JSON.stringify({ event: "payment.failed", data: { reference } }));
        assert.equal(await check(raw, sign(raw)), "verified");
        if (appended.length > 0) {
          const longer = Buffer.concat([raw, Buffer.from(appended)]);
          assert.equal(await check(longer, sign(raw)), "no_match");
        }
      }),
      { numRuns: 100 },
    );
  });

  test(`${name}: a body that is no longer raw, headers that are missing or senseless`, async () => {
    for (const parsed of [event, JSON.stringify(event), undefined, null, {}, [...body]])
      assert.equal(await check(parsed, sign()), "not_raw_body");
    assert.equal(await check(body, {}), "missing_header");
    assert.equal(await check(body, new Headers()), "missing_header");
    for (const senseless of ["", "v1=", "t=1,v1=abc", "v1,", "v1,abc", `t=${T}`, "t=1,t=2,v1=00", "💰"])
      assert.equal(await check(body, { ...sign(), [signature]: senseless }), "malformed_header", senseless);
    const many = sign(
      body,
      Array.from({ length: 11 }, () => secret),
    );
    assert.equal(await check(body, many), "malformed_header");
  });

  test(`${name}: what is signed and is no event`, async () => {
    for (const text of ["not json", "null", "[]", '{"event":1}', '{"event":"x","data":{}}']) {
      const raw = Buffer.from(text);
      assert.equal(await check(raw, sign(raw)), "not_an_event", text);
    }
  });

  test(`${name}: without a secret it throws, for that is no stranger's doing`, async () => {
    for (const none of ["", "hunter2", "whsec_", [], [secret, ""], `${secret} `])
      await assert.rejects(check(body, sign(), none), TypeError);
    await assert.rejects(verify(body, sign(), undefined as unknown as string), /whsec_/);
  });
}

test("verify_webhook: upper-case digits, a second stamp and a signature of another scheme are not ours", async () => {
  const header = ours()["x-service-signature"] ?? "";
  const check = async (text: string) =>
    reasonOf(await verifyWebhook(body, { "x-service-signature": text }, secret, { now }));
  assert.equal(await check(header.replace(/[0-9a-f]{64}/, (digits) => digits.toUpperCase())), "malformed_header");
  assert.equal(await check(`t=${T - 1},${header}`), "malformed_header");
  assert.equal(await check(header.replace("v1=", "v0=")), "malformed_header");
  assert.equal(await check(`${header},v2=later`), "verified");
});
