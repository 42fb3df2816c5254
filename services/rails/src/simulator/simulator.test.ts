import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { chargeMoves } from "./charge.ts";
import { newsOfMessage, readMessage, writeMessage } from "./message.ts";
import { collectionRows, rowOf } from "./outcome.ts";
import { crc16, paymentQr } from "./qr.ts";
import { signCallback, verifyCallback } from "./signature.ts";

test("rows: the sandbox's table is complete, and the last two digits choose", () => {
  const digits = Array.from({ length: 15 }, (_, at) => String(at).padStart(2, "0"));
  assert.deepEqual(Object.keys(collectionRows).sort(), digits);
  for (const pair of digits) assert.equal(rowOf("test", `+22507070707${pair}`), collectionRows[pair]);
  for (const pair of ["15", "42", "99"]) assert.equal(rowOf("test", `+22507070707${pair}`), collectionRows["00"]);
});

test("rows: without a phone a person decides; live mode is always 00", () => {
  assert.deepEqual(rowOf("test", undefined), { answer: "accepted" });
  for (const phone of [undefined, "+2250707070702", "+2250707070712"]) {
    assert.equal(rowOf("live", phone), collectionRows["00"]);
  }
});

test("charges: the states of the table are those of the CHECK", () => {
  const sql = readFileSync(join(import.meta.dirname, "../../migrations/0003_kinds.sql"), "utf8");
  const check = /simulator_charges_state\s+check \(state in \(([^)]*)\)\)/.exec(sql)?.[1] ?? "";
  assert.deepEqual(check.match(/\w+/g), Object.keys(chargeMoves));
});

test("qr: the checksum is CRC-16/CCITT-FALSE and holds for published payloads", () => {
  assert.equal(crc16("123456789"), "29B1");
  for (const payload of [
    "00020136560012int.bceao.pi01363497a720-ab11-4973-9619-534e04f263a1520400005303952540415005802CI5901X6001X62290518Produit-ABC-123654110300063049C73",
    "00020136560012int.bceao.pi0136111c3e1b-4312-49ec-b75e-4c8c74c10fd7520400005303952540410005802CI5901X6001X62270516F2YG7643D5HH202311035006304" +
      "9618",
  ]) {
    assert.equal(crc16(payload.slice(0, -4)), payload.slice(-4));
  }
});

test("qr: amount, country, alias and reference stand in the scheme's profile", () => {
  const alias = "3497a720-ab11-4973-9619-534e04f263a1";
  const payload = paymentQr({ alias, currency: "XOF", amount: "1500", country: "CI", reference: "PAY-TEST12345678" });
  const head = `00020136560012int.bceao.pi0136${alias}52040000530395254041500`;
  const rest = "5802CI5901X6001X62270516PAY-TEST123456781103400" + "6304";
  assert.equal(payload.slice(0, -4), head + rest);
  assert.equal(payload.slice(-4), crc16(head + rest));
  assert.throws(() => paymentQr({ alias, currency: "ZZZ", amount: "1", country: "CI", reference: "R" }), /ZZZ/);
});

test("signature: over exactly this body, with our secret, lately", () => {
  const body = Buffer.from('{"a":1}');
  const now_ms = 1_800_000_000_000;
  const header = signCallback("s", body, now_ms);
  assert.equal(verifyCallback("s", header, body, now_ms), true);
  assert.equal(verifyCallback("s", header, body, now_ms + 300_000), true);
  assert.equal(verifyCallback("s", header, body, now_ms + 300_001), false);
  assert.equal(verifyCallback("s", header, body, now_ms - 300_001), false);
  assert.equal(verifyCallback("s", header, Buffer.from('{"a":2}'), now_ms), false);
  assert.equal(verifyCallback("t", header, body, now_ms), false);
  for (const bad of [undefined, "", "v1=00", header.toUpperCase(), `${header}0`]) {
    assert.equal(verifyCallback("s", bad, body, now_ms), false);
  }
});

test("message: what is written is read; anything else is none", () => {
  const letter = {
    reference: "PAY-TEST00000000",
    news: "reject",
    failure_code: "payer_rejected",
    amount_minor: 9_007_199_254_740_991n,
    currency: "XOF",
  } as const;
  const read = readMessage(writeMessage(letter));
  assert.ok(read);
  assert.deepEqual(newsOfMessage(read), { outcome: "failed", failure_code: "payer_rejected" });
  const paid = readMessage(writeMessage({ ...letter, news: "settle" }));
  assert.ok(paid);
  assert.deepEqual(newsOfMessage(paid), { outcome: "success", amount_minor: letter.amount_minor, currency: "XOF" });
  assert.equal(paid.failure_code, null, "a success after a failure has none");
  for (const body of ["", "null", "[]", '{"event_id":1}', JSON.stringify({ ...read, amount_minor: 1.5 })]) {
    assert.equal(readMessage(Buffer.from(body)), null, body);
  }
});
