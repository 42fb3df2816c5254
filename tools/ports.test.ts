import assert from "node:assert/strict";
import { createServer } from "node:net";
import { test } from "node:test";
import { freePorts, requireFreePort } from "./ports.ts";

test("free ports: asked for at the same moment, none is given twice", async () => {
  const given = (await Promise.all([freePorts(30), freePorts(30), freePorts(60)])).flat();
  assert.equal(new Set(given).size, 120);
});

test("free ports: a block is this process's, whoever else looks for one", async () => {
  const [port = 0] = await freePorts(1);
  const guard = port - ((port - 15_000) % 50);
  const other = createServer();
  const failure = await new Promise<Error>((resolve, reject) => {
    other.once("error", resolve);
    other.listen({ port: guard, host: "127.0.0.1", exclusive: true }, () => reject(new Error("it could be opened")));
  });
  assert.equal("code" in failure && failure.code, "EADDRINUSE");
});

test("free ports: a door of the house is not given out", async () => {
  const [port = 0] = await freePorts(1);
  await requireFreePort(port + 1, "--port");
  assert.ok(!(await freePorts(49)).includes(port + 1));
});
