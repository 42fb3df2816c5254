import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { isRefusal, refuse, refuseField } from "@cauri/money/refusal";
import { RpcFault } from "./fault.ts";
import { caller, openClient, openRoom, type Rooms, TOKEN } from "./testing.ts";

async function open(t: { after(fn: () => unknown): void }, handlers: Partial<Rooms>, token = TOKEN) {
  const room = await openRoom(t, handlers);
  return { ...room, client: openClient(t, room.server.port, token) };
}

test("rpc: answer, caller and outcome travel; one canonical line is written", async (t) => {
  const seen: unknown[] = [];
  const { client, lines } = await open(t, {
    getEndpointSecret: async ({ id }, call) => {
      seen.push(
        call.caller.account,
        call.caller.mode,
        call.caller.key_id,
        call.caller.idempotency_key,
        call.request_id,
      );
      call.outcome("replayed");
      return { secret: `whsec_${id}` };
    },
  });
  const answer = await client.getEndpointSecret({ id: "7" }, { caller });
  assert.ok(!isRefusal(answer));
  assert.equal(answer.secret, "whsec_7");
  assert.deepEqual(seen, ["acct_1", "test", "key_1", null, "req-1"]);
  assert.equal(lines.length, 1);
  assert.equal(lines[0]?.["outcome"], "ok");
  assert.ok(!JSON.stringify(lines).includes("whsec"), "no payload in the log");
});

test("rpc: a refusal comes back as the value it was, with field and retry", async (t) => {
  const { client } = await open(t, {
    getEndpoint: async () => refuseField("id", "must be a number — really"),
    testEndpoints: async () => refuse("rate_limited", "too many", { retry_after_s: 7 }),
  });
  assert.deepEqual(await client.getEndpoint({ id: "x" }, { caller }), {
    refused: "invalid_request",
    field: "id",
    message: "must be a number — really",
  });
  assert.deepEqual(await client.testEndpoints({}, { caller }), {
    refused: "rate_limited",
    message: "too many",
    retry_after_s: 7,
  });
});

test("rpc: a fault is thrown, says nothing of its cause, and tells whether it may pass", async (t) => {
  const { client, lines } = await open(t, {
    getEndpoint: async () => {
      throw Object.assign(new Error("terminating connection of user hunter2"), { code: "57P01" });
    },
    listEndpoints: async () => {
      assert.fail("a bug");
    },
  });
  const passing = await client.getEndpoint({ id: "1" }, { caller }).catch((error: unknown) => error);
  assert.ok(passing instanceof RpcFault && passing.unavailable);
  assert.ok(!String((passing.cause as Error).message).includes("hunter2"));
  const bug = await client.listEndpoints({}, { caller }).catch((error: unknown) => error);
  assert.ok(bug instanceof RpcFault && !bug.unavailable);
  assert.equal(lines.at(-1)?.["bug"], true);
});

test("rpc: another token is unauthenticated, and a caller that is missing is a bug", async (t) => {
  const { client } = await open(t, { listEndpoints: async () => refuse("not_found", "x") }, "other");
  const fault = await client.listEndpoints({}, { caller }).catch((error: unknown) => error);
  assert.ok(fault instanceof RpcFault && fault.code === 16);
  const second = await open(t, { getEndpoint: async (_, call) => refuse("not_found", call.caller.account) });
  const bug = await second.client.getEndpoint({ id: "1" }).catch((error: unknown) => error);
  assert.ok(bug instanceof RpcFault && bug.code === 13);
});

test("rpc: each hop gets what is left less 200 ms, and a write that nobody waits for any more goes on", async (t) => {
  let ended = false;
  let left = 0;
  const release = Promise.withResolvers<void>();
  const done = Promise.withResolvers<void>();
  const { client } = await open(t, {
    getEndpointSecret: async () => ({ secret: "s" }),
    listEndpoints: async (_, call) => {
      left = (call.caller.deadline_ms ?? 0) - Date.now();
      await release.promise;
      ended = true;
      done.resolve();
      return { data: [], page: 1, perPage: 10, total: 0n, hasMore: false };
    },
  });
  // Connecting may take a slow machine longer than the deadline.
  await client.getEndpointSecret({ id: "1" }, { caller });
  const begun = Date.now();
  const hurried = { ...caller, deadline_ms: begun + 1_200 };
  const fault = await client.listEndpoints({}, { caller: hurried }).catch((error: unknown) => error);
  assert.ok(fault instanceof RpcFault && fault.code === 4, String(fault));
  assert.ok(left <= 1_001 && left > 0, `${left} ms were left`);
  assert.equal(ended, false);
  release.resolve();
  await done.promise;
  const late = await client.listEndpoints({}, { caller: { ...caller, deadline_ms: begun } }).catch((e: unknown) => e);
  assert.ok(late instanceof RpcFault && late.unavailable);
});

test("rpc: a drain lets the running call end; a client finds the next server on the same port", async (t) => {
  const [begun, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const { client, server } = await open(t, {
    getEndpointSecret: async () => {
      begun.resolve();
      await release.promise;
      return { secret: "s" };
    },
  });
  const running = client.getEndpointSecret({ id: "1" }, { caller });
  await begun.promise;
  const drained = server.drain();
  await sleep(50);
  release.resolve();
  assert.ok(!isRefusal(await running));
  await drained;
  const lost = await client.getEndpointSecret({ id: "1" }, { caller }).catch((error: unknown) => error);
  assert.ok(lost instanceof RpcFault && lost.unavailable);
});
