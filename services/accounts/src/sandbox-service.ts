// The operator's sandbox: made-up money, and a test clock that moves on. Neither touches real money or real time.

import { MAX_MINOR } from "@cauri/money/amount";
import { newId } from "@cauri/money/ids";
import { isMode, type Mode } from "@cauri/money/mode";
import { isRefusal, type Refusal, refuse, refuseField } from "@cauri/money/refusal";
import type {
  AdvanceClockRequest,
  AdvanceClockResponse,
  SandboxFundRequest,
  SandboxFundResponse,
} from "@cauri/proto/ts/cauri/accounts/v1/accounts";
import { readOffset, setOffset } from "@cauri/store/clock";
import { type Queryable, transact } from "@cauri/store/pool";
import { noSuchAccount } from "./account-service.ts";
import { findAccount, lockAccount, testNow } from "./account-store.ts";
import { tellClock } from "./events.ts";
import type { House } from "./house.ts";
import { available, type Funding, fund } from "./ledger.ts";
import { openDue } from "./sweep.ts";
import { countryOfPlatform, findAsset, isPlace } from "./terms-store.ts";

/** Ten years by one call and a hundred in all: enough for any schedule, and every instant stays a plain date. */
const ADVANCE_MAX_MS = 315_360_000_000n;
const OFFSET_MAX_MS = 3_153_600_000_000n;

export async function sandboxFund(
  house: House,
  request: SandboxFundRequest,
  request_id: string,
): Promise<SandboxFundResponse | Refusal> {
  const mode = request.mode ?? "test";
  if (!isMode(mode)) return refuseField("mode", "must be test or live");
  const asked: Funding = {
    account_id: request.accountId,
    platform_id: request.platformId,
    asset_id: request.assetId,
    mode,
    amount_minor: request.amountMinor,
  };
  const refused = await whyNotFunded(house, asked);
  if (refused !== null) return refused;
  await openDue(house, asked.account_id);
  const posted = await fund(house.ledger, request_id === "" ? newId("req", house.clock()) : request_id, asked);
  if (posted === "not_open") {
    return refuse("temporarily_unavailable", "the platform's ledger accounts are still being opened", {
      retry_after_s: 1,
    });
  }
  return { availableMinor: await available(house.ledger, asked) };
}

/** Moves the test clock on: it only ever grows, and every other room hears of it from the outbox. */
export async function advanceClock(
  house: House,
  request: AdvanceClockRequest,
): Promise<AdvanceClockResponse | Refusal> {
  const { accountId: account_id, byMs: by_ms } = request;
  if (by_ms < 1n || by_ms > ADVANCE_MAX_MS)
    return refuseField("by_ms", `must be from 1 to ${ADVANCE_MAX_MS} (ten years)`);
  const moved = await transact(house.pool, async (tx) => {
    const account = await lockAccount(tx, account_id);
    if (account === null) return noSuchAccount();
    const offset_ms = (await readOffset(tx, account_id)) + by_ms;
    if (offset_ms > OFFSET_MAX_MS) {
      return refuseField("by_ms", "the test clock would be more than a hundred years ahead");
    }
    await setOffset(tx, account_id, offset_ms);
    await tellClock(tx, account_id, offset_ms);
    return { offset_ms, now: await testNow(tx, account_id) };
  });
  if (isRefusal(moved)) return moved;
  return { accountId: account_id, offsetMs: moved.offset_ms, now: moved.now };
}

async function whyNotFunded(house: House, asked: Funding): Promise<Refusal | null> {
  if (asked.amount_minor < 1n || asked.amount_minor > MAX_MINOR) {
    return refuseField("amount_minor", `must be from 1 to ${MAX_MINOR}`);
  }
  const account = await findAccount(house.pool, asked.account_id);
  if (account === null) return noSuchAccount();
  if (account.status === "closed") return refuse("precondition_failed", "the account is closed");
  const where = await whyNoPlace(house.pool, asked);
  return where ?? whyNoMode(house, asked.mode);
}

async function whyNoPlace(db: Queryable, { platform_id, asset_id }: Funding): Promise<Refusal | null> {
  if ((await countryOfPlatform(db, platform_id)) === null) return refuseField("platform_id", "no such platform");
  if ((await findAsset(db, asset_id)) === null) return refuseField("asset_id", "no such asset");
  return (await isPlace(db, platform_id, asset_id)) ? null : refuseField("asset_id", `is not held on ${platform_id}`);
}

/** Live money is made up only where the simulator serves live rails: there it is as little real as test money. */
function whyNoMode(house: House, mode: Mode): Refusal | null {
  if (mode === "test" || house.live === "simulator") return null;
  return refuse("precondition_failed", "live money cannot be made up: live rails are not served by the simulator");
}
