import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { systemClock } from "@cauri/money/clock";
import { advanceClock, sandboxFund } from "./sandbox-service.ts";
import { good, openTestHouse, refusedWith, type TestHouse } from "./testing.ts";

let at: TestHouse;
let house: TestHouse["house"];
let signUp: TestHouse["signUp"];
let eventsOf: TestHouse["eventsOf"];

before(async () => {
  at = await openTestHouse();
  ({ house, signUp, eventsOf } = at);
});
after(() => at.db.close());

test("sandbox_fund: adds up, once per request; what doesn't stand is refused with its field", async () => {
  const { accountId } = await signUp();
  const asked = { accountId, platformId: "plt_mtn_ci", assetId: "ast_xof", amountMinor: 500n };
  assert.equal(good(await sandboxFund(house, asked, "req_1")).availableMinor, 500n);
  assert.equal(good(await sandboxFund(house, asked, "req_1")).availableMinor, 500n, "the edge repeated the call");
  assert.equal(good(await sandboxFund(house, asked, "req_2")).availableMinor, 1_000n);
  assert.equal(good(await sandboxFund(house, asked, "")).availableMinor, 1_500n);
  refusedWith(await sandboxFund(house, { ...asked, amountMinor: 0n }, ""), "invalid_request", "amount_minor");
  refusedWith(await sandboxFund(house, { ...asked, platformId: "plt_x" }, ""), "invalid_request", "platform_id");
  refusedWith(await sandboxFund(house, { ...asked, assetId: "ast_x" }, ""), "invalid_request", "asset_id");
  refusedWith(await sandboxFund(house, { ...asked, assetId: "ast_ghs" }, ""), "invalid_request", "asset_id");
  refusedWith(await sandboxFund(house, { ...asked, mode: "prod" }, ""), "invalid_request", "mode");
  refusedWith(await sandboxFund(house, { ...asked, mode: "live" }, ""), "precondition_failed");
  const simulated = { ...house, live: "simulator" } as const;
  assert.equal(good(await sandboxFund(simulated, { ...asked, mode: "live" }, "")).availableMinor, 500n);
});

test("advance_clock: offsets of calls at once add up, and each is told", async () => {
  const { accountId } = await signUp();
  await Promise.all(Array.from({ length: 5 }, () => advanceClock(house, { accountId, byMs: 1_000n })));
  const moved = good(await advanceClock(house, { accountId, byMs: 86_400_000n }));
  assert.equal(moved.offsetMs, 86_405_000n);
  assert.ok(Math.abs((moved.now?.getTime() ?? 0) - systemClock() - 86_405_000) < 60_000);
  const told = (await eventsOf(accountId)).filter(({ subject }) => subject === "cauri.accounts.clock.advanced");
  assert.equal(told.length, 6);
  refusedWith(await advanceClock(house, { accountId, byMs: 0n }), "invalid_request", "by_ms");
  refusedWith(await advanceClock(house, { accountId: "acct_x", byMs: 1n }), "not_found");
});
