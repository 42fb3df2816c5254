import assert from "node:assert/strict";
import { test } from "node:test";
import { create, toBinary } from "@bufbuild/protobuf";
import { SetFeeRequestSchema } from "@cauri/proto/es/cauri/accounts/v1/reference_pb";
import {
  CreatePaymentRequestSchema,
  ListPaymentsRequestSchema,
  PaymentSchema,
  PaymentStatus,
} from "@cauri/proto/es/cauri/collections/v1/payments_pb";
import { EndpointSchema, UpdateEndpointRequestSchema } from "@cauri/proto/es/cauri/webhooks/v1/webhooks_pb";
import fc from "fast-check";
import { fromJsonForm, parseTimestamp, toJsonForm, toSentForm } from "./json-form.ts";

test("json form: an answer holds every field; what is absent is null, an empty list is []", () => {
  const json = toJsonForm(EndpointSchema, create(EndpointSchema, { id: 7n, url: "https://a.example" }));
  assert.equal(json["id"], 7);
  assert.equal(json["description"], null);
  assert.equal(json["suspended_until"], null);
  assert.deepEqual(json["subscribed_events"], []);
  assert.equal(json["is_active"], false);
});

test("json form: enum words, unspecified as null, times with milliseconds, metadata as a plain object", () => {
  const json = toJsonForm(
    PaymentSchema,
    create(PaymentSchema, {
      status: PaymentStatus.SUCCESS,
      createdAt: { seconds: 1_795_200_780n, nanos: 5_999_999 },
      metadata: { values: { a: "b" } },
      payer: {},
    }),
  );
  assert.equal(json["status"], "success");
  assert.equal(json["created_at"], "2026-11-20T18:53:00.005Z");
  assert.deepEqual(json["metadata"], { a: "b" });
  assert.deepEqual(json["payer"], { phone: null, name: null, email: null });
  assert.equal(toJsonForm(PaymentSchema, create(PaymentSchema))["status"], null);
});

test("json form: a number beyond 2^53-1 is a defect, never rounded", () => {
  const message = create(PaymentSchema, { amountMinor: 2n ** 53n });
  assert.throws(() => toJsonForm(PaymentSchema, message), RangeError);
});

test("json form: as sent, absent fields are left out and internal ones are not told", () => {
  const sent = toSentForm(
    UpdateEndpointRequestSchema,
    create(UpdateEndpointRequestSchema, { id: "7", description: "", updateMask: { paths: ["url"] } }),
  );
  assert.deepEqual(sent, { id: "7", description: "" });
  assert.deepEqual(toSentForm(SetFeeRequestSchema, create(SetFeeRequestSchema, { percentBps: 0, minMinor: 0n })), {
    min_minor: 0,
  });
});

test("json form: as sent, what no JSON form can hold is written for its schema to refuse, and never thrown", () => {
  const beyond = (amountMinor: bigint) =>
    toSentForm(CreatePaymentRequestSchema, create(CreatePaymentRequestSchema, { amountMinor }))["amount_minor"];
  assert.equal(beyond(2n ** 53n), 2 ** 53);
  assert.equal(beyond(-(2n ** 63n)), -(2 ** 63));
  const listed = (seconds: bigint) =>
    toSentForm(ListPaymentsRequestSchema, create(ListPaymentsRequestSchema, { createdFrom: { seconds, nanos: 0 } }));
  for (const seconds of [2n ** 60n, -(2n ** 60n), 253_402_300_800n]) {
    assert.equal(parseTimestamp(String(listed(seconds)["created_from"])), null, `${seconds}`);
  }
  assert.deepEqual(listed(253_402_300_799n), { created_from: "9999-12-31T23:59:59.000Z" });
  const unheard = create(ListPaymentsRequestSchema, { status: 99 as PaymentStatus });
  assert.deepEqual(toSentForm(ListPaymentsRequestSchema, unheard), { status: "99" });
});

test("json form: what was read is written back, whatever was sent", () => {
  const text = fc.string({ minLength: 1, unit: "grapheme" });
  const sent = fc.record(
    {
      amount_minor: fc.maxSafeInteger().map(Math.abs),
      asset_id: text,
      expires_in_s: fc.integer({ min: 300, max: 86_400 }),
      payer: fc.record({ phone: text, name: text, email: text }, { requiredKeys: [], noNullPrototype: true }),
      metadata: fc.dictionary(
        fc.string({ minLength: 1 }).filter((key) => key !== "__proto__"),
        text,
        { noNullPrototype: true },
      ),
    },
    { requiredKeys: [], noNullPrototype: true },
  );
  fc.assert(
    fc.property(sent, (json) => {
      const message = fromJsonForm(CreatePaymentRequestSchema, json);
      assert.deepEqual(toSentForm(CreatePaymentRequestSchema, message), json);
      assert.ok(toBinary(CreatePaymentRequestSchema, message as never) instanceof Uint8Array);
    }),
  );
});

test("json form: RFC 3339 times are read with their offset, times and years that do not exist are not", () => {
  assert.deepEqual(parseTimestamp("2026-11-20T19:53:00.5+01:00"), { seconds: 1_795_200_780n, nanos: 500_000_000 });
  assert.deepEqual(parseTimestamp("2024-02-29t00:00:00z"), { seconds: 1_709_164_800n, nanos: 0 });
  for (const wrong of [
    "2026-02-29T00:00:00Z",
    "2026-11-20",
    "2026-11-20T24:00:01Z",
    "2026-11-20T24:00:00Z",
    "0000-12-31T23:59:59Z",
    "0001-01-01T00:00:00+00:01",
    "9999-12-31T23:59:59-00:01",
    "2026-11-20T18:53:00",
    "now",
    "",
  ]) {
    assert.equal(parseTimestamp(wrong), null, wrong);
  }
});
