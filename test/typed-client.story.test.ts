// The example client over Connect, gRPC-Web and gRPC, before the house as it runs: one contract with REST, whichever
// protocol asks; and a client of another make.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { before, test } from "node:test";
import { promisify } from "node:util";
import { fromBinary } from "@bufbuild/protobuf";
import { BinaryReader } from "@bufbuild/protobuf/wire";
import { RefusalDetailSchema } from "@cauri/proto/es/cauri/api/v1/reason_pb";
import { PaymentStatus } from "@cauri/proto/es/cauri/collections/v1/payments_pb";
import { PaymentServiceClient } from "@cauri/proto/ts/cauri/collections/v1/payments";
import { Code, ConnectError } from "@connectrpc/connect";
import { credentials, Metadata, type ServiceError } from "@grpc/grpc-js";
import {
  type Cauri,
  createCauri,
  exactlyOnce,
  PROTOCOLS,
  type Protocol,
  refusalOf,
} from "../examples/typed-client/client.ts";
import { handles, type Merchant, merchant, paymentIs } from "./house.ts";

let at: Merchant;
before(async () => {
  at = await merchant("Typed");
});

function addressOf(protocol: Protocol): string {
  return protocol === "grpc" ? handles().grpc_url : handles().base_url;
}

function clientOf(protocol: Protocol, key = at.test.key): Cauri {
  return createCauri({ baseUrl: addressOf(protocol), key, protocol });
}

const order = (more: { amountMinor?: bigint; clientRef?: string; description?: string } = {}) => ({
  amountMinor: 10_000n,
  assetId: "ast_xof",
  platformId: "plt_mtn_ci",
  payer: { phone: "+2250504030201", name: "Awa Kone" },
  ...more,
});

/** What a call was refused with: its protocol's status, and our reason from the error detail. */
async function refusal(call: Promise<unknown>): Promise<[status: string | undefined, code: string, field: string]> {
  const error = await call.then(() => assert.fail("it was answered"), ConnectError.from);
  const detail = refusalOf(error);
  assert.ok(detail !== undefined, `no detail in ${error.message}`);
  assert.match(detail.requestId, /./);
  assert.equal(error.metadata.get("cauri-reason"), detail.code);
  return [Code[error.code], detail.code, detail.field];
}

for (const protocol of PROTOCOLS) {
  test(`${protocol}: a payment is made, found, listed and paid, the same one that REST shows`, async () => {
    const cauri = clientOf(protocol);
    const made = await cauri.payments.createPayment(order({ clientRef: `typed-${protocol}`, description: "Kôfi ☕" }));
    assert.deepEqual(
      [made.status, made.amountMinor, made.feeMinor, made.netMinor, made.isTest, made.description],
      [PaymentStatus.SUCCESS, 10_000n, 150n, 9_850n, true, "Kôfi ☕"],
    );
    const found = await cauri.payments.getPayment({ id: made.reference });
    assert.deepEqual(found, made);
    const rest = await paymentIs(at.test, made.id, "success");
    assert.deepEqual([rest.client_ref, rest.amount_minor], [`typed-${protocol}`, 10_000]);
    const listed = await cauri.payments.listPayments({ clientRef: `typed-${protocol}` });
    assert.deepEqual([listed.data.map(({ id }) => id), listed.total], [[made.id], 1n]);
    const { data } = await cauri.reference.listAssets({});
    assert.ok(data.some(({ assetId }) => assetId === "ast_xof"));
  });

  test(`${protocol}: keys, scopes, modes and other accounts are refused as by REST, with our reason as error detail`, async () => {
    const { payments } = clientOf(protocol);
    const mine = await payments.createPayment(order());
    const one = (key: string) => clientOf(protocol, key).payments.getPayment({ id: mine.id });
    assert.deepEqual(await refusal(one(`sk_test_${"A".repeat(43)}`)), ["Unauthenticated", "invalid_api_key", ""]);
    const writer = await at.key("test", ["can_initiate_payment"]);
    assert.deepEqual(await refusal(one(writer.key)), ["PermissionDenied", "insufficient_scope", ""]);
    const live = await at.key("live");
    assert.deepEqual(await refusal(one(live.key)), ["NotFound", "not_found", ""]);
    const other = await merchant("Other");
    assert.deepEqual(await refusal(one(other.test.key)), ["NotFound", "not_found", ""]);
    const payout = { ...order(), destination: { type: "mobile_wallet", phone: "+2250504030200" } };
    const paid_out = clientOf(protocol, live.key).payouts.createPayout(payout);
    assert.deepEqual(await refusal(paid_out), ["PermissionDenied", "not_live", ""]);
    const { payer, ...nobody } = order();
    assert.deepEqual(await refusal(payments.createPayment(nobody)), [
      "InvalidArgument",
      "invalid_request",
      "payer.phone",
    ]);
    const wrong = payments.createPayment(order({ amountMinor: -1n }));
    assert.deepEqual(await refusal(wrong), ["InvalidArgument", "invalid_request", "amount_minor"]);
    const taken = await refusal(payments.createPayment(order({ clientRef: "a b" })));
    assert.deepEqual(taken, ["InvalidArgument", "invalid_request", "client_ref"]);
  });

  test(`${protocol}: one idempotency key is one payment, over every protocol and REST`, async () => {
    const key = `typed-${protocol}`;
    const outcomes: (string | null)[] = [];
    const make = (through: Protocol, amountMinor: bigint) =>
      clientOf(through).payments.createPayment(order({ amountMinor }), {
        headers: { "idempotency-key": key },
        onHeader: (headers) => {
          outcomes.push(`${headers.get("cauri-outcome")} ${headers.get("idempotent-replayed")}`);
        },
      });
    const first = await make(protocol, 7_000n);
    const again = await Promise.all(PROTOCOLS.map((through) => make(through, 7_000n)));
    assert.ok(again.every((payment) => payment.id === first.id));
    assert.deepEqual(outcomes, ["created null", ...PROTOCOLS.map(() => "replayed true")]);
    const body = { amount_minor: 7_000, asset_id: "ast_xof", platform_id: "plt_mtn_ci" };
    const payer = { phone: "+2250504030201", name: "Awa Kone" };
    const rest = await at.test.post("/v1/payments", { ...body, payer }, { "idempotency-key": key });
    assert.deepEqual([rest.status, rest.body.id, rest.headers.get("idempotent-replayed")], [201, first.id, "true"]);
    assert.deepEqual(await refusal(make(protocol, 8_000n)), ["Aborted", "concurrent_request", ""]);
  });

  test(`${protocol}: a creation that fails on the way is asked for again under its key and made once`, async () => {
    const { payments } = clientOf(protocol);
    const payer = { phone: "+2250504030205", name: "Awa Kone" };
    const statuses: string[] = [];
    const made = await exactlyOnce(`refused-${protocol}`, async (options) => {
      const asked = payments.createPayment({ ...order({ clientRef: `refused-${protocol}` }), payer }, options);
      return asked.catch((error) => {
        statuses.push(refusalOf(error)?.code ?? "");
        throw error;
      });
    });
    assert.deepEqual(statuses, ["upstream_error"], "the sandbox's row 05: refused once by the rail");
    const { total } = await payments.listPayments({ clientRef: `refused-${protocol}` });
    assert.deepEqual([made.clientRef, total], [`refused-${protocol}`, 1n]);
  });

  test(`${protocol}: test events are streamed as they happen`, async () => {
    const key = await at.key("test");
    const cauri = clientOf(protocol, key.key);
    const leave = new AbortController();
    const heard: string[] = [];
    let made: string | undefined;
    try {
      for await (const { message } of cauri.listener.listen(
        { events: ["payment.success"] },
        { timeoutMs: 0, signal: leave.signal },
      )) {
        if (message.case === "opened") made = (await cauri.payments.createPayment(order())).id;
        if (message.case !== "notice") continue;
        heard.push(JSON.parse(message.value.body).data.id);
        if (heard.includes(made ?? "")) leave.abort();
      }
    } catch (error) {
      assert.equal(ConnectError.from(error).code, Code.Canceled);
    }
    assert.ok(heard.includes(made ?? ""), `heard ${heard}`);
  });

  test(`${protocol}: the example runs as its page says`, async () => {
    const main = ["examples/typed-client/main.ts", addressOf(protocol), at.test.key, protocol];
    const { stdout } = await promisify(execFile)(process.execPath, main);
    assert.match(
      stdout,
      /^(\S+) is pending\n\1 is success: 1477 of 1500 are yours\nrefused: invalid_request, because of payer.phone\n$/,
    );
  });
}

test("the limit is one for all protocols and REST: of 400 at once exactly 300 pass, and the rest are told when to come back", async () => {
  const key = await at.key("test");
  const clients = PROTOCOLS.map((protocol) => clientOf(protocol, key.key).reference);
  const told: Record<string, number> = {};
  const ask = async (n: number) => {
    const client = clients[n % 4];
    try {
      if (client !== undefined) await client.listAssets({ perPage: 1 });
      const answer = client === undefined ? await key.get("/v1/assets?per_page=1") : null;
      return answer?.body.error?.code ?? "admitted";
    } catch (error) {
      return refusalOf(ConnectError.from(error))?.code ?? String(error);
    }
  };
  for (const word of await Promise.all(Array.from({ length: 400 }, (_, n) => ask(n))))
    told[word] = (told[word] ?? 0) + 1;
  assert.deepEqual(told, { admitted: 300, rate_limited: 100 });
  for (const client of clients) {
    const error = await client.listAssets({}).then(() => assert.fail("it was answered"), ConnectError.from);
    const detail = refusalOf(error);
    assert.deepEqual([error.code, detail?.code], [Code.ResourceExhausted, "rate_limited"]);
    const wait_s = detail?.retryAfterS ?? 0;
    assert.ok(wait_s >= 1 && wait_s <= 60, `after ${wait_s} s`);
    assert.equal(error.metadata.get("retry-after"), String(wait_s));
    assert.equal(error.metadata.get("ratelimit"), `"default";r=0;t=${wait_s}`);
    assert.equal(error.metadata.get("ratelimit-policy"), '"default";q=300;w=60');
  }
});

test("gRPC: a client of another make (grpc-js) reads answers, and refusals from grpc-status-details-bin", async () => {
  const client = new PaymentServiceClient(new URL(addressOf("grpc")).host, credentials.createInsecure());
  const metadata = new Metadata();
  metadata.set("x-api-key", at.test.key);
  try {
    const listed = await new Promise<{ data: readonly unknown[] }>((resolve, reject) => {
      client.listPayments({ perPage: 2 } as never, metadata, (error, answer) =>
        error ? reject(error) : resolve(answer),
      );
    });
    assert.equal(listed.data.length, 2);
    const error = await new Promise<ServiceError>((resolve, reject) => {
      client.getPayment({ id: "nothing" }, metadata, (refused) =>
        refused ? resolve(refused) : reject(new Error("found")),
      );
    });
    assert.deepEqual(
      [error.code, error.details, error.metadata.get("cauri-reason")],
      [5, "no such payment", ["not_found"]],
    );
    const [details] = error.metadata.get("grpc-status-details-bin");
    assert.ok(Buffer.isBuffer(details));
    const detail = fromBinary(RefusalDetailSchema, firstDetail(details));
    assert.deepEqual([detail.code, detail.retryAfterS], ["not_found", 0]);
  } finally {
    client.close();
  }
});

/** The value of the first `google.protobuf.Any` in a `google.rpc.Status`. */
function firstDetail(status: Uint8Array): Uint8Array {
  const inner = (bytes: Uint8Array, wanted: number): Uint8Array => {
    const reader = new BinaryReader(bytes);
    for (;;) {
      const [number, wire] = reader.tag();
      if (number === wanted) return reader.bytes();
      reader.skip(wire);
    }
  };
  return inner(inner(status, 3), 2);
}
