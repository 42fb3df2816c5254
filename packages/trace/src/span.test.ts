// What a header may say, which ids an operation's trace has, and that nothing is made while tracing is off.

import assert from "node:assert/strict";
import { test } from "node:test";
import { idFromUuid, newId } from "@cauri/money/ids";
import { operationIds } from "./operation-trace.ts";
import { inSpan, logIds, operationTraceparent, readTraceparent, traceparent, tracing } from "./span.ts";
import { startTracing } from "./tracing.ts";

const silent = () => {};

test("off: the work runs as it is, without a span, a header or ids", async () => {
  const stop = await startTracing({ service: "test", endpoint: "", ratio: 1, warn: silent });
  assert.equal(tracing(), false);
  assert.equal(await inSpan("work", { kind: "internal" }, async (span) => span), null);
  assert.equal(traceparent(), undefined);
  assert.equal(operationTraceparent(newId("pay", 0)), undefined);
  assert.deepEqual(logIds(), {});
  await stop();
});

test("an operation's trace: its UUID, and for the first span the last half of it; other things have none", () => {
  const uuid = "01a1feb3-842d-7f80-98d3-3784913d6e17";
  assert.deepEqual(operationIds(idFromUuid("pay", uuid)), {
    traceId: "01a1feb3842d7f8098d33784913d6e17",
    spanId: "98d33784913d6e17",
  });
  for (const other of [idFromUuid("acct", uuid), "pay_1", "", null, undefined]) {
    assert.equal(operationIds(other), null);
  }
});

test("a header: only the one form of W3C Trace Context, and no ids of zeros", () => {
  const trace = "0123456789abcdef0123456789abcdef";
  const read = readTraceparent(`00-${trace}-0123456789abcdef-01`);
  assert.deepEqual([read?.traceId, read?.spanId, read?.traceFlags], [trace, "0123456789abcdef", 1]);
  for (const wrong of [
    undefined,
    "",
    `01-${trace}-0123456789abcdef-01`,
    `00-${"0".repeat(32)}-0123456789abcdef-01`,
    `00-${trace}-${"0".repeat(16)}-01`,
    `00-${trace.toUpperCase()}-0123456789abcdef-01`,
    `00-${trace}-0123456789abcdef-01-more`,
  ]) {
    assert.equal(readTraceparent(wrong), null, String(wrong));
  }
});

test("on: spans nest, an operation begins its trace with its own ids, and a thrown error goes on", async () => {
  const stop = await startTracing({ service: "test", endpoint: "http://127.0.0.1:9", ratio: 1, warn: silent });
  try {
    const operation = newId("pay", 1_700_000_000_000);
    const ids = operationIds(operation);
    await inSpan("outer", { kind: "server", parent: operationTraceparent(operation) }, async (outer) => {
      assert.equal(outer?.spanContext().traceId, ids?.traceId);
      assert.deepEqual(logIds(), { trace_id: ids?.traceId, span_id: outer?.spanContext().spanId });
      await inSpan("inner", { kind: "client" }, async (inner) => {
        assert.equal(inner?.spanContext().traceId, ids?.traceId);
        assert.equal(traceparent(), `00-${ids?.traceId}-${inner?.spanContext().spanId}-01`);
      });
    });
    assert.equal(await inSpan("loop", { kind: "client", within: true }, async (span) => span), null);
    await assert.rejects(
      inSpan("failing", { kind: "internal" }, async () => {
        throw new RangeError("no");
      }),
      RangeError,
    );
  } finally {
    await stop();
  }
});
