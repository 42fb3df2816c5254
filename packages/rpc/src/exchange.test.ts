import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { isRefusal, refuse } from "@cauri/money/refusal";
import {
  type Answers,
  type Call,
  CallServiceClient,
  CallServiceService,
  Calls,
} from "@cauri/proto/ts/cauri/rpc/v1/calls";
import { WebhookServiceService } from "@cauri/proto/ts/cauri/webhooks/v1/webhooks";
import { credentials, Metadata, type ServerDuplexStream, type StatusObject, status } from "@grpc/grpc-js";
import type { Promisified } from "./client.ts";
import { CALLS_UNDER_WAY, SHARED_BYTES } from "./exchange-wire.ts";
import { RpcFault } from "./fault.ts";
import { caller, openClient, openDouble, openRoom, openWire, TOKEN } from "./testing.ts";

type Client = Promisified<typeof WebhookServiceService>;
type Exchange = ServerDuplexStream<Calls, Answers>;

const ask = (client: Client, id: string, timeout_ms = 30_000) =>
  client.getEndpointSecret({ id }, { caller, timeout_ms });
/** The secret, or the number of the fault. */
const heard = async (client: Client, id: string, timeout_ms?: number): Promise<string | number> => {
  const answer = await ask(client, id, timeout_ms).catch((error: unknown) => error);
  if (answer instanceof RpcFault) return answer.code;
  assert.ok(!isRefusal(answer) && !(answer instanceof Error), String(answer));
  return (answer as { secret: string }).secret;
};
const echo = { getEndpointSecret: async ({ id }: { id: string }) => ({ secret: id }) };
const numbers = (count: number) => Array.from({ length: count }, (_, index) => String(index));

/** A service that answers each call on the shared stream by its own id, and keeps what came. */
function recorder() {
  const seen: { messages: Calls[]; streams: Exchange[]; alone: string[] } = { messages: [], streams: [], alone: [] };
  const { responseSerialize } = WebhookServiceService.getEndpointSecret;
  const { requestDeserialize } = WebhookServiceService.getEndpointSecret;
  const exchange = (grpc: Exchange) => {
    seen.streams.push(grpc);
    grpc.on("data", (message: Calls) => {
      seen.messages.push(message);
      const answers = message.calls.map(({ id, request }) => {
        const value = responseSerialize({ secret: requestDeserialize(request).id });
        return { id, outcome: "", result: { $case: "response", value } as const };
      });
      grpc.write({ answers, closing: false });
    });
    grpc.on("end", () => grpc.end());
  };
  const getEndpointSecret = (grpc: { request: { id: string } }, answer: (error: null, value: object) => void) => {
    seen.alone.push(grpc.request.id);
    answer(null, { secret: "alone" });
  };
  return { seen, exchange: { exchange }, unary: { getEndpointSecret } };
}

test("exchange: calls of one turn leave in one message, and each gets its own answer", async (t) => {
  const { seen, exchange } = recorder();
  const client = openClient(t, await openDouble(t, [[CallServiceService, exchange]]));
  const asked = numbers(50);
  assert.deepEqual(await Promise.all(asked.map((id) => heard(client, id))), asked);
  assert.equal(seen.messages.length, 1);
  const [call] = seen.messages[0]?.calls ?? [];
  assert.equal(call?.method, "cauri.webhooks.v1.WebhookService/GetEndpointSecret");
  assert.deepEqual([call?.account, call?.mode, call?.keyId, call?.requestId], ["acct_1", "test", "key_1", "req-1"]);
});

test("exchange: a large request goes by itself", async (t) => {
  const { seen, exchange, unary } = recorder();
  const client = openClient(
    t,
    await openDouble(t, [
      [CallServiceService, exchange],
      [WebhookServiceService, unary as never],
    ]),
  );
  const large = "x".repeat(SHARED_BYTES + 1);
  assert.deepEqual(await Promise.all([heard(client, large), heard(client, "small")]), ["alone", "small"]);
  assert.deepEqual(seen.alone, [large]);
  assert.equal(seen.messages.flatMap(({ calls }) => calls).length, 1);
});

test("exchange: one that ends at its deadline disturbs no other, and its late answer nobody", async (t) => {
  const left: number[] = [];
  const release = Promise.withResolvers<void>();
  const { server } = await openRoom(t, {
    getEndpointSecret: async ({ id }, call) => {
      left.push(call.deadline_ms - Date.now());
      if (id === "slow") await release.promise;
      return { secret: id };
    },
  });
  const client = openClient(t, server.port);
  // Connecting may take a slow machine longer than the deadline.
  assert.equal(await heard(client, "before"), "before");
  left.length = 0;
  const [slow, ...others] = await Promise.all([
    heard(client, "slow", 1_000),
    ...numbers(20).map((id) => heard(client, id)),
  ]);
  assert.equal(slow, status.DEADLINE_EXCEEDED);
  assert.deepEqual(others, numbers(20));
  assert.ok((left[0] ?? 0) <= 1_000 && (left[1] ?? 0) > 1_000, String(left));
  release.resolve();
  assert.equal(await heard(client, "after"), "after");
});

test("exchange: a lost connection fails the calls under way and no later one", async (t) => {
  const stuck = Promise.withResolvers<{ secret: string }>();
  const { server } = await openRoom(t, {
    getEndpointSecret: async ({ id }) => (id === "stuck" ? stuck.promise : { secret: id }),
  });
  const wire = await openWire(t, server.port);
  const client = openClient(t, wire.port);
  const [first, second] = [heard(client, "stuck"), heard(client, "stuck")];
  assert.equal(await heard(client, "before"), "before");
  wire.cut();
  assert.deepEqual(await Promise.all([first, second]), [status.UNAVAILABLE, status.UNAVAILABLE]);
  // The channel connects again by itself; until then a call is told UNAVAILABLE as well.
  while ((await heard(client, "after")) !== "after") await sleep(20);
  stuck.resolve({ secret: "late" });
});

test("exchange: while the service is down a call fails at once, and once it is back it is found", async (t) => {
  const first = await openRoom(t, echo);
  const { port } = first.server;
  const client = openClient(t, port);
  assert.equal(await heard(client, "1"), "1");
  await first.server.drain();
  assert.equal(await heard(client, "2"), status.UNAVAILABLE);
  await openRoom(t, echo, port);
  while ((await heard(client, "3")) !== "3") await sleep(20);
});

test("exchange: replicas share the turns, and one that drains loses no call", async (t) => {
  const served = new Map<number, number>();
  const rooms = await Promise.all(
    [0, 1, 2].map((replica) =>
      openRoom(t, {
        getEndpointSecret: async ({ id }) => {
          served.set(replica, (served.get(replica) ?? 0) + 1);
          await sleep(Number(id) % 5);
          return { secret: id };
        },
      }),
    ),
  );
  const client = openClient(
    t,
    rooms.map(({ server }) => server.port),
  );
  while (served.size < 3) await heard(client, "0");
  let going = true;
  const wrong: unknown[] = [];
  const load = numbers(32).map(async (id) => {
    while (going) {
      const answer = await heard(client, id);
      if (answer !== id) wrong.push(answer);
    }
  });
  await sleep(100);
  await rooms[0]?.server.drain();
  const then = served.get(0);
  await sleep(100);
  going = false;
  await Promise.all(load);
  assert.deepEqual(wrong, []);
  assert.equal(served.get(0), then, "a drained replica gets nothing more");
});

test("exchange: what was asked before the client heard of the drain is answered", async (t) => {
  const release = Promise.withResolvers<void>();
  let begun = 0;
  const { server } = await openRoom(t, {
    getEndpointSecret: async ({ id }) => {
      begun += 1;
      await release.promise;
      return { secret: id };
    },
  });
  const client = openClient(t, server.port);
  const before = numbers(10).map((id) => heard(client, id));
  while (begun < 10) await sleep(5);
  const drained = server.drain();
  // In the same turn: the client cannot know yet.
  const meanwhile = numbers(10).map((id) => heard(client, id));
  while (begun < 20) await sleep(5);
  release.resolve();
  assert.deepEqual(await Promise.all([...before, ...meanwhile]), [...numbers(10), ...numbers(10)]);
  await drained;
});

test("exchange: a fault, a refusal and a bug are one call's matter", async (t) => {
  const { server, lines } = await openRoom(t, {
    ...echo,
    getEndpoint: async ({ id }) => {
      if (id === "bug") throw new Error("secret of the house");
      return refuse("not_found", "no such endpoint");
    },
  });
  const client = openClient(t, server.port);
  const [bug, refusal, fine] = await Promise.all([
    client.getEndpoint({ id: "bug" }, { caller }).catch((error: unknown) => error),
    client.getEndpoint({ id: "1" }, { caller }),
    heard(client, "fine"),
  ]);
  assert.ok(bug instanceof RpcFault && bug.code === status.INTERNAL && !String(bug.cause).includes("secret"));
  assert.deepEqual(refusal, { refused: "not_found", message: "no such endpoint" });
  assert.equal(fine, "fine");
  assert.deepEqual(lines.map(({ outcome }) => outcome).sort(), ["INTERNAL", "not_found", "ok"]);
});

test("exchange: a service of before is asked by calls of their own, and no call is lost on the way", async (t) => {
  const { seen, unary } = recorder();
  const client = openClient(t, await openDouble(t, [[WebhookServiceService, unary as never]]));
  assert.deepEqual(
    await Promise.all(numbers(5).map((id) => heard(client, id))),
    numbers(5).map(() => "alone"),
  );
  assert.equal(await heard(client, "5"), "alone");
  assert.deepEqual(seen.alone.sort(), numbers(6));
});

test("exchange: beside a replica of before a newer one does not get everything", async (t) => {
  const { seen, unary } = recorder();
  const old = await openDouble(t, [[WebhookServiceService, unary as never]]);
  const { server, lines } = await openRoom(t, echo);
  const client = openClient(t, [old, server.port]);
  await heard(client, "first");
  // Until the channel has met both, one of them gets all.
  for (let n = 0; seen.alone.length < 5 || lines.length < 5; n += 1) {
    assert.ok(n < 1_000, `${seen.alone.length} to the older one, ${lines.length} to the newer one`);
    assert.ok([`${n}`, "alone"].includes(String(await heard(client, `${n}`))));
    await sleep(10);
  }
});

test("exchange: a full stream refuses a call at once and answers those it took", async (t) => {
  const release = Promise.withResolvers<void>();
  const { server } = await openRoom(t, {
    getEndpointSecret: async ({ id }) => {
      await release.promise;
      return { secret: id };
    },
  });
  const client = openClient(t, server.port);
  const taken = numbers(CALLS_UNDER_WAY).map((id) => heard(client, id, 30_000));
  assert.equal(await heard(client, "one more"), status.RESOURCE_EXHAUSTED);
  release.resolve();
  assert.deepEqual(await Promise.all(taken), numbers(CALLS_UNDER_WAY));
});

test("exchange: an answer of megabytes comes among small ones; one too large for a message is that call's fault", async (t) => {
  const sizes: Record<string, number> = { large: 3_000_000, huge: 5_000_000 };
  const { server } = await openRoom(t, {
    getEndpointSecret: async ({ id }) => ({ secret: id.padEnd(sizes[id] ?? 0, ".") }),
  });
  const client = openClient(t, server.port);
  const [large, huge, ...small] = await Promise.all(["large", "huge", ...numbers(50)].map((id) => heard(client, id)));
  assert.equal(String(large).length, 3_000_000);
  assert.equal(huge, status.RESOURCE_EXHAUSTED);
  assert.deepEqual(small, numbers(50));
});

test("exchange: who does not take answers is not served on, and gets all of them in the end", async (t) => {
  let served = 0;
  const answer = "x".repeat(60_000);
  const { server } = await openRoom(t, {
    getEndpointSecret: async () => {
      served += 1;
      return { secret: answer };
    },
  });
  const { stream, ask: send } = openStream(t, server.port, TOKEN);
  const heardIds = new Set<number>();
  stream.on("data", ({ answers }: Answers) => {
    for (const { id } of answers) heardIds.add(id);
  });
  // grpc-js stops the stream only for a reader that has begun.
  stream.once("data", () => stream.pause());
  const COUNT = 1_000;
  for (let id = 1; id <= COUNT; id += 1) send(id);
  let before = -1;
  while (served === 0 || before !== served) {
    before = served;
    await sleep(500);
  }
  assert.ok(served > 0 && served < COUNT / 2, `${served} served to nobody`);
  stream.resume();
  stream.end();
  await once(stream, "end");
  assert.equal(heardIds.size, COUNT);
});

test("exchange: a service that reads nothing fills the queue of its callers and no more", async (t) => {
  const deaf = await openDouble(t, [[CallServiceService, { exchange: () => {} }]]);
  const client = openClient(t, deaf);
  const large = "x".repeat(SHARED_BYTES - 100);
  const codes = await Promise.all(numbers(200).map(() => heard(client, large, 300)));
  assert.ok(codes.includes(status.RESOURCE_EXHAUSTED) && codes.includes(status.DEADLINE_EXCEEDED), String(codes));
});

test("exchange: without the token a stream learns nothing and asks nothing", async (t) => {
  let served = 0;
  const { server, lines } = await openRoom(t, {
    getEndpointSecret: async ({ id }) => {
      served += 1;
      return { secret: id };
    },
  });
  for (const token of ["", "hous", "another"]) {
    const { stream, ask: send } = openStream(t, server.port, token);
    const told: unknown[] = [];
    stream.on("data", (answers) => told.push(answers));
    stream.on("metadata", (metadata) => told.push(metadata));
    const status_told = new Promise<StatusObject>((resolve) => stream.on("status", resolve));
    send(1);
    const ended = await status_told;
    assert.equal(ended.code, status.UNAUTHENTICATED);
    assert.equal(ended.details, "the house's token is missing or wrong");
    assert.deepEqual(told, []);
  }
  assert.deepEqual([served, lines], [0, []]);
});

test("exchange: what cannot be read, and an RPC that is none, are one call's fault", async (t) => {
  const { server } = await openRoom(t, echo);
  const { stream, ask: send } = openStream(t, server.port, TOKEN);
  const heardAnswers: Answers["answers"] = [];
  stream.on("data", ({ answers }: Answers) => heardAnswers.push(...answers));
  send(1, { method: "cauri.webhooks.v1.WebhookService/Nothing" });
  send(2, { request: Buffer.from([0x0a, 0xff]) });
  send(3);
  stream.end();
  await once(stream, "end");
  const told = new Map(heardAnswers.map(({ id, result }) => [id, result]));
  const codeOf = (id: number) => {
    const result = told.get(id);
    return result?.$case === "fault" ? result.value.code : result?.$case;
  };
  assert.deepEqual([codeOf(1), codeOf(2), codeOf(3)], [status.UNIMPLEMENTED, status.INTERNAL, "response"]);
});

/** The shared stream as a client of another make has it. */
function openStream(t: { after(fn: () => unknown): void }, port: number, token: string) {
  const channel = new CallServiceClient(`127.0.0.1:${port}`, credentials.createInsecure());
  t.after(() => channel.close());
  const metadata = new Metadata();
  metadata.set("cauri-token", token);
  const stream = channel.exchange(metadata);
  stream.on("error", () => {});
  const request = WebhookServiceService.getEndpointSecret.requestSerialize({ id: "1" });
  const usual = { method: "cauri.webhooks.v1.WebhookService/GetEndpointSecret", leftMs: 0, request };
  const ask = (id: number, of: Partial<Call> = {}) =>
    stream.write(Calls.fromPartial({ calls: [{ ...usual, ...of, id }] }));
  return { stream, ask };
}
