// A server stream through the public door, on each protocol: messages, back-pressure, refusals, and its end when the
// client leaves, the key is revoked, the account suspended, or the door closes.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { refuse } from "@cauri/money/refusal";
import { ListenService } from "@cauri/proto/es/cauri/webhooks/v1/listen_pb";
import type { ListenResponse } from "@cauri/proto/ts/cauri/webhooks/v1/listen";
import type { StreamCall } from "@cauri/rpc/server-stream";
import { Code, createClient } from "@connectrpc/connect";
import { detailOf, failure, transports } from "./rpc-testing.ts";
import { openDoor } from "./testing.ts";

const opened = (secret: string): ListenResponse => ({ message: { $case: "opened", value: { secret, cursor: "1" } } });

/** Tells one message and then nothing until it is told to end. */
async function* open({ signal, caller }: StreamCall): AsyncGenerator<ListenResponse> {
  yield opened(`${caller.account} ${caller.mode}`);
  await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
}

const listen = async (_: unknown, call: StreamCall) => open(call);

/** Reads a stream to its end. */
async function drain(stream: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of stream);
}

test("stream: messages come as they are told, with the caller, and a clean end is one", async (t) => {
  const door = await openDoor(t, {
    listen: {
      listen: async ({ events }, { caller }) =>
        (async function* () {
          yield opened(caller.account);
          for (const name of events) yield opened(name);
        })(),
    },
  });
  const headers = { authorization: `Bearer ${door.key()}` };
  for (const [name, transport] of Object.entries(transports(door))) {
    const secrets: string[] = [];
    let left: string | null = null;
    const onHeader = (got: Headers) => {
      left = got.get("ratelimit-policy");
      assert.equal(got.get("x-accel-buffering"), "no", name);
    };
    const asked = { events: ["payment.success", "payment.failed"] };
    for await (const { message } of createClient(ListenService, transport).listen(asked, { headers, onHeader })) {
      if (message.case === "opened") secrets.push(message.value.secret);
    }
    assert.deepEqual(secrets, ["acct_test", "payment.success", "payment.failed"], name);
    assert.equal(left, '"default";q=300;w=60', name);
  }
});

test("stream: refusals before, at and after its beginning carry our reason", async (t) => {
  const door = await openDoor(t, {
    limit: 5,
    listen: {
      listen: async ({ events }) => {
        if (events.length === 0) return refuse("insufficient_scope", "listening is for test keys");
        return (async function* () {
          yield opened("s");
          throw Object.assign(new Error("hunter2"), { unavailable: true });
        })();
      },
    },
  });
  for (const [name, transport] of Object.entries(transports(door))) {
    const client = createClient(ListenService, transport);
    const told = async (headers: Record<string, string>, events: string[] = []) => {
      const error = await failure(drain(client.listen({ events }, { headers })));
      assert.ok(!error.message.includes("hunter2"));
      const { code, retryAfterS } = detailOf(error);
      // Told once: in the headers and at the end it would be read as two.
      assert.equal(error.metadata.get("cauri-reason"), code, name);
      assert.equal(Number(error.metadata.get("retry-after")), retryAfterS, name);
      return [Code[error.code], code];
    };
    const key = { "x-api-key": door.key() };
    assert.deepEqual(await told({}), ["Unauthenticated", "missing_api_key"], name);
    const reader = { "x-api-key": door.key({ scopes: ["can_read_transactions"] }) };
    assert.deepEqual(await told(reader), ["PermissionDenied", "insufficient_scope"], name);
    assert.deepEqual(await told(key), ["PermissionDenied", "insufficient_scope"], name);
    assert.deepEqual(await told(key, Array(51).fill("payment.success")), ["InvalidArgument", "invalid_request"], name);
    assert.deepEqual(await told(key, ["payment.success"]), ["Unavailable", "temporarily_unavailable"], name);
    for (let more = 0; more < 2; more += 1) await told(key);
    assert.deepEqual(await told(key), ["ResourceExhausted", "rate_limited"], name);
  }
});

/** So many that buffers on the way, the system's own too, cannot hold them. */
const MANY = 100;

test("stream: a slow client holds the service back instead of filling memory", async (t) => {
  let told = 0;
  const door = await openDoor(t, {
    listen: {
      listen: async () =>
        (async function* () {
          for (; told < MANY; told += 1) yield opened("x".repeat(200_000));
        })(),
    },
  });
  const headers = { "x-api-key": door.key() };
  // One protocol for each version of HTTP: how their messages are written makes no difference here.
  for (const name of ["connect, binary", "gRPC"]) {
    const transport = transports(door)[name];
    assert.ok(transport !== undefined);
    told = 0;
    const stream = createClient(ListenService, transport).listen({}, { headers })[Symbol.asyncIterator]();
    await stream.next();
    await sleep(300);
    assert.ok(told < MANY / 2, `${name}: ${told} of ${MANY} were taken from the service while nobody read`);
    let read = 1;
    while ((await stream.next()).done !== true) read += 1;
    assert.equal(read, MANY, name);
  }
});

test("stream: the service hears that its client has left", async (t) => {
  const ends: boolean[] = [];
  const door = await openDoor(t, {
    listen: {
      listen: async (_, call) => {
        call.signal.addEventListener("abort", () => ends.push(true));
        return open(call);
      },
    },
  });
  const headers = { "x-api-key": door.key() };
  const all = Object.values(transports(door));
  for (const transport of all) {
    const leaving = new AbortController();
    const stream = createClient(ListenService, transport).listen({}, { headers, signal: leaving.signal });
    await stream[Symbol.asyncIterator]().next();
    leaving.abort();
  }
  while (ends.length < all.length) await sleep(10);
});

test("stream: a key that is revoked ends its streams, and only its own", async (t) => {
  const door = await openDoor(t, { listen: { listen } });
  const [revoked, kept] = [door.key(), door.key()];
  const streams = Object.values(transports(door)).map((transport) => {
    const of = (key: string) => createClient(ListenService, transport).listen({}, { headers: { "x-api-key": key } });
    return { ended: failure(drain(of(revoked))), kept: of(kept)[Symbol.asyncIterator]() };
  });
  for (const { kept: other } of streams) await other.next();
  door.revoke(revoked);
  for (const { ended } of streams) {
    const error = await ended;
    assert.deepEqual([error.code, detailOf(error).code], [Code.Unauthenticated, "invalid_api_key"]);
  }
  const last = streams.map(({ kept: other }) => failure(other.next()));
  door.streams.close();
  for (const end of last) assert.equal(detailOf(await end).code, "temporarily_unavailable");
});

test("stream: a door that closes ends its streams at once and waits for none", async (t) => {
  const door = await openDoor(t, { listen: { listen } });
  const headers = { "x-api-key": door.key() };
  const ended = Object.values(transports(door)).map((transport) =>
    failure(drain(createClient(ListenService, transport).listen({}, { headers }))),
  );
  await sleep(100);
  door.streams.close();
  for (const end of ended) assert.equal((await end).code, Code.Unavailable);
  // Were a stream waited for, this test would not end in time.
  await door.app.close();
});
