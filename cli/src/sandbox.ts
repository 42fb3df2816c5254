// `cauri sandbox …`: made-up money, driven outcomes, and an account's test clock.

import {
  AccountService,
  AdvanceClockResponseSchema,
  SandboxFundResponseSchema,
} from "@cauri/proto/es/cauri/accounts/v1/accounts_pb";
import { PaymentSchema, PaymentService } from "@cauri/proto/es/cauri/collections/v1/payments_pb";
import { RefundSchema, RefundService } from "@cauri/proto/es/cauri/collections/v1/refunds_pb";
import { PayoutSchema, PayoutService } from "@cauri/proto/es/cauri/payouts/v1/payouts_pb";
import { WithdrawalSchema, WithdrawalService } from "@cauri/proto/es/cauri/payouts/v1/withdrawals_pb";
import { RailsService } from "@cauri/proto/es/cauri/rails/v1/rails_pb";
import { WebhookService } from "@cauri/proto/es/cauri/webhooks/v1/webhooks_pb";
import { type Command, Option } from "commander";
import { command, group, jsonOf } from "./command.ts";
import { type Door, Refused, refusedBy } from "./door.ts";
import { parseDuration, parseMinor } from "./inputs.ts";

const EXAMPLE_ACCOUNT = "acct_01KAE8QK8Q5V6ZJ9T2N4B7C1XW";

/** By the prefix of their id or reference: what is done at once (transfers, rebalances), and rooms that don't stand yet. */
const OTHER_OPERATIONS = /^(?:(?:tr|rb|dp|sub|inv|rtp)_|(?:TRF|RBL|DSP|SUB|RTP)-)/i;
const PAYOUT = /^(?:po_|PYT-)/i;
const REFUND = /^(?:re_|RFD-)/i;
const WITHDRAWAL = /^(?:wr_|WDR-)/i;

/** Far more than any ladder or schedule needs; a house that still finds work then is going in circles. */
const DRAIN_ROUNDS_MAX = 500;
/** A room that is restarting or slow is asked again, a room that stays away is told. */
const DRAIN_FAILURES_MAX = 5;
const DRAIN_PAUSE_MS = 500;

export function sandboxCommands(): Command {
  const clock = group("clock", "Move the clock of an account's test mode.", [advanceClock()]);
  return group("sandbox", "Drive test mode: money, outcomes, time.", [fund(), advance(), clock]);
}

function fund(): Command {
  return command<{ platform: string; asset: string; amount: bigint; mode?: string }>(
    "fund <account>",
    "Give an account sandbox money; in live mode only where the simulator serves live rails.",
    `sandbox fund ${EXAMPLE_ACCOUNT} --platform plt_mtn_ci --asset ast_xof --amount 100000`,
    (made) =>
      made
        .requiredOption("--platform <platform>", "platform, e.g. plt_mtn_ci")
        .requiredOption("--asset <asset>", "asset, e.g. ast_xof")
        .requiredOption("--amount <n>", "amount in minor units", parseMinor)
        .addOption(new Option("--mode <mode>", "test unless given").choices(["test", "live"])),
    async ({ args, options: { platform, asset, amount, mode }, door }) => {
      const funded = await door(AccountService).sandboxFund({
        accountId: args[0] ?? "",
        platformId: platform,
        assetId: asset,
        amountMinor: amount,
        ...(mode === undefined ? {} : { mode }),
      });
      const people = `Available on ${platform} now: ${funded.availableMinor} minor units of ${asset}.`;
      return { json: jsonOf(SandboxFundResponseSchema, funded), people };
    },
  );
}

function advance(): Command {
  return command<{ to: string }>(
    "advance <operation>",
    "Drive an operation of the sandbox to an outcome, as its payer or the operator would.",
    "sandbox advance PAY-TEST3K9Q2MBX --to success",
    (made) =>
      made.addOption(
        new Option("--to <outcome>", "the outcome")
          .choices(["success", "failed", "refunded", "dispute"])
          .makeOptionMandatory(),
      ),
    async ({ args, options: { to }, door }) => {
      const id = args[0] ?? "";
      if (OTHER_OPERATIONS.test(id)) {
        const sentence = `${id} is of a kind that cannot be driven: payments, refunds, payouts and withdrawals can.`;
        throw new Refused("precondition_failed", sentence);
      }
      if (PAYOUT.test(id)) {
        const payout = await door(PayoutService).advancePayout({ id, to });
        const json = jsonOf(PayoutSchema, payout);
        return { json, people: `Payout ${payout.reference} is ${String(json["status"])}.` };
      }
      if (REFUND.test(id)) {
        const refund = await door(RefundService).advanceRefund({ id, to });
        const json = jsonOf(RefundSchema, refund);
        return { json, people: `Refund ${refund.reference} is ${String(json["status"])}.` };
      }
      if (WITHDRAWAL.test(id)) {
        const withdrawal = await door(WithdrawalService).advanceWithdrawal({ id, to });
        const json = jsonOf(WithdrawalSchema, withdrawal);
        return { json, people: `Withdrawal request ${withdrawal.reference} is ${String(json["status"])}.` };
      }
      const payment = await door(PaymentService).advancePayment({ id, to });
      const json = jsonOf(PaymentSchema, payment);
      return { json, people: `Payment ${payment.reference} is ${String(json["status"])}.` };
    },
  );
}

function advanceClock(): Command {
  return command<{ account: string; by: number }>(
    "advance",
    "Move an account's test clock on and wait until everything due has run.",
    `sandbox clock advance --account ${EXAMPLE_ACCOUNT} --by 31d`,
    (made) =>
      made
        .requiredOption("--account <account>", "account, acct_…")
        .requiredOption("--by <duration>", "how far, e.g. 90s, 24h, 31d", parseDuration),
    async ({ options: { account, by }, door }) => {
      const moved = await door(AccountService).advanceClock({ accountId: account, byMs: BigInt(by) });
      await drainAll(door, account, moved.offsetMs);
      const json = jsonOf(AdvanceClockResponseSchema, moved);
      return { json, people: `The test clock of ${account} shows ${String(json["now"])}; everything due has run.` };
    },
  );
}

/** Asks every room to do what is due, round after round, until a whole round did nothing: one room's work makes another's. */
async function drainAll(door: Door, account: string, offsetMs: bigint): Promise<void> {
  const rooms = [
    ["accounts", door(AccountService)],
    // Before collections: what was paid by the new time must be known when an expiry of the same time asks.
    ["rails", door(RailsService)],
    ["collections", door(PaymentService)],
    ["payouts", door(PayoutService)],
    ["webhooks", door(WebhookService)],
  ] as const;
  let failures = 0;
  for (let round = 1; round <= DRAIN_ROUNDS_MAX; round += 1) {
    let done = 0n;
    let failed: Refused | null = null;
    for (const [room, client] of rooms) {
      try {
        done += (await client.drain({ account, offsetMs })).done;
      } catch (error) {
        const refused = refusedBy(error);
        if (refused.code !== "temporarily_unavailable") throw refused;
        failed = new Refused(
          refused.code,
          `The clock is moved, but ${room} does not finish what is due: ${refused.message}`,
        );
      }
    }
    if (failed === null && done === 0n) return;
    failures = failed === null ? 0 : failures + 1;
    if (failed !== null && failures >= DRAIN_FAILURES_MAX) throw failed;
    if (failed !== null) await new Promise((resolve) => setTimeout(resolve, DRAIN_PAUSE_MS));
  }
  throw new Refused(
    "internal_error",
    `The clock is moved, but after ${DRAIN_ROUNDS_MAX} rounds something is still due.`,
  );
}
