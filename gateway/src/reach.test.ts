import assert from "node:assert/strict";
import { test } from "node:test";
import type { Probe } from "@cauri/rpc/process";
import { watchReach } from "./reach.ts";

test("reach: a room that was never reached keeps the gateway from being ready, one that goes later is told", async () => {
  const away = new Set(["ledger", "webhooks"]);
  const probes: Probe[] = [];
  const told: (() => readonly string[])[] = [];
  watchReach(
    { rooms: ["ledger", "webhooks"], probe: async (room) => (away.has(room) ? "cannot be reached" : null) },
    { atReady: (_room, probe) => probes.push(probe), atNotice: (notice) => told.push(notice) },
  );
  const notices = () => told.flatMap((notice) => notice());
  const ready = () => Promise.all(probes.map((probe) => probe()));
  assert.deepEqual(await ready(), ["cannot be reached", "cannot be reached"]);
  assert.deepEqual(notices(), []);

  away.delete("ledger");
  assert.deepEqual(await ready(), [null, "cannot be reached"], "each room by itself");
  away.add("ledger");
  assert.deepEqual(await ready(), [null, "cannot be reached"]);
  assert.deepEqual(notices(), ["ledger: cannot be reached"]);

  away.clear();
  assert.deepEqual(await ready(), [null, null]);
  assert.deepEqual(notices(), []);
});
