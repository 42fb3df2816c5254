// `cauri trigger`: makes an event of the catalogue happen, really: through the API with the merchant's own test key, the
// outcome chosen by the sandbox's last two digits. What follows is what follows in earnest: books, events, deliveries.

import { randomBytes, randomUUID } from "node:crypto";
import {
  type Payment,
  PaymentSchema,
  PaymentService,
  PaymentStatus,
} from "@cauri/proto/es/cauri/collections/v1/payments_pb";
import { RefundSchema, RefundService, RefundStatus } from "@cauri/proto/es/cauri/collections/v1/refunds_pb";
import { type Payout, PayoutSchema, PayoutService, PayoutStatus } from "@cauri/proto/es/cauri/payouts/v1/payouts_pb";
import { TestEndpointsResponseSchema, WebhookService } from "@cauri/proto/es/cauri/webhooks/v1/webhooks_pb";
import type { JsonObject } from "@cauri/rpc/json-form";
import { Argument, type Command } from "commander";
import { cell, command, jsonOf, rowsOf } from "./command.ts";
import { type Door, findPublicDoor, openPublicDoor, Refused, refusedBy } from "./door.ts";
import { parseMinor } from "./inputs.ts";
import { publicDoor } from "./listen.ts";
import { type Shown, table } from "./print.ts";

/** Far below a corridor's upper bound, so that a payout's money can be collected in one go. */
const AMOUNT_MINOR = 1_500n;
/** The simulator takes a second; a house under load takes longer. */
const WAIT_MS = 30_000;
const ASK_EVERY_MS = 250;

type TriggerOptions = { amount?: bigint; clientRef?: string };

/** What a recipe works with: the merchant's door, the operators' door, and what the operation is to be. */
type Kitchen = {
  readonly api: Door;
  readonly operators: Door;
  readonly amount_minor: bigint;
  readonly client_ref: string;
};

type Recipe = (kitchen: Kitchen) => Promise<Shown>;

/** How each event is made. What is not here, such as subscriptions, has no room in the house yet. */
const RECIPES: Readonly<Record<string, Recipe>> = {
  "payment.initiated": (kitchen) => collect(kitchen, "04", PaymentStatus.PENDING),
  "payment.pending": (kitchen) => collect(kitchen, "04", PaymentStatus.PENDING),
  "payment.success": (kitchen) => collect(kitchen, "00", PaymentStatus.SUCCESS),
  "payment.failed": (kitchen) => collect(kitchen, "02", PaymentStatus.FAILED),
  "payout.success": (kitchen) => payOut(kitchen, "00", PayoutStatus.SUCCESS),
  "payout.failed": (kitchen) => payOut(kitchen, "02", PayoutStatus.FAILED),
  "payout.refunded": (kitchen) => payOut(kitchen, "09", PayoutStatus.REFUNDED),
  "payout.cancelled": cancelPayout,
  "refund.success": (kitchen) => giveBack(kitchen, "00", RefundStatus.SUCCESS),
  "refund.failed": (kitchen) => giveBack(kitchen, "13", RefundStatus.FAILED),
  "payment.test": testEndpoints,
};

export function triggerCommand(): Command {
  return command<TriggerOptions>(
    "trigger",
    "Make an event of the catalogue happen in test mode, by the operation that it is about.",
    "trigger payment.success --client-ref order-1042",
    (made) =>
      publicDoor(made)
        .addArgument(new Argument("<event>", "the event").choices(Object.keys(RECIPES)))
        .option("--amount <n>", `amount in minor units (${AMOUNT_MINOR})`, parseMinor)
        .option("--client-ref <ref>", "the merchant's own reference; a fresh one unless given")
        .addHelpText("after", HELP),
    async ({ args: [event = ""], options, door: operators }) => {
      const { token } = findPublicDoor(options, process.env);
      // A live key would move money for the sake of a trial.
      if (!token.startsWith("sk_test_")) {
        throw new Refused(
          "insufficient_scope",
          "Events are triggered in test mode alone: name a key that begins with sk_test_.",
        );
      }
      const recipe = RECIPES[event];
      if (recipe === undefined) throw new Error(`no recipe for ${event}`);
      const { amount = AMOUNT_MINOR, clientRef = `trigger-${randomBytes(5).toString("hex")}` } = options;
      const api = openPublicDoor(options, process.env);
      return await recipe({ api, operators, amount_minor: amount, client_ref: clientRef });
    },
  );
}

const HELP = `
Payments need a key that may collect and read. Refunds need can_refund too, and collect their payment first; payouts need
can_payout, and collect their money first where the balance is too low. payout.cancelled is an operator's act: it takes the
operators' door as well (--url and --token, or a local house). payment.test goes to registered endpoints alone, every other
event to \`cauri listen\` too.`;

async function collect(kitchen: Kitchen, row: string, wanted: PaymentStatus): Promise<Shown> {
  const payments = kitchen.api(PaymentService);
  const made = await payments.createPayment(paymentOf(kitchen, row), once());
  const payment = await settled(made, async () => payments.getPayment({ id: made.id }), wanted);
  const json = jsonOf(PaymentSchema, payment);
  return { json, people: `Payment ${payment.reference} is ${cell(json, "status")}.` };
}

async function payOut(kitchen: Kitchen, row: string, wanted: PayoutStatus): Promise<Shown> {
  const payouts = kitchen.api(PayoutService);
  const { made, collected } = await funded(kitchen, () => payouts.createPayout(payoutOf(kitchen, row), once()));
  const payout = await settled(made, async () => payouts.getPayout({ id: made.id }), wanted);
  return shownPayout(payout, collected);
}

/** Half of a payment collected for it: its fee stays with the house, so that the whole might not be there. */
async function giveBack(kitchen: Kitchen, row: string, wanted: RefundStatus): Promise<Shown> {
  const { api, amount_minor, client_ref } = kitchen;
  const collected = await api(PaymentService).createPayment(paymentOf(kitchen, row), once());
  const payments = api(PaymentService);
  const payment = await settled(collected, () => payments.getPayment({ id: collected.id }), PaymentStatus.SUCCESS);
  const refunds = api(RefundService);
  const half = { paymentId: payment.id, amountMinor: (amount_minor + 1n) / 2n, clientRef: client_ref };
  const made = await refunds.createRefund(half, once());
  const refund = await settled(made, () => refunds.getRefund({ id: made.id }), wanted);
  const json = jsonOf(RefundSchema, refund);
  const people = `Payment ${payment.reference} was collected for it.\nRefund ${refund.reference} is ${cell(json, "status")}.`;
  return { json, people };
}

/** A payout can be cancelled only before it has left: its rail is unavailable, and then the operator calls it off. */
async function cancelPayout(kitchen: Kitchen): Promise<Shown> {
  const { api, operators, client_ref } = kitchen;
  const { made, collected } = await funded(kitchen, async () => {
    try {
      return await api(PayoutService).createPayout(payoutOf(kitchen, "12"), once());
    } catch (error) {
      if (refusedBy(error).code !== "temporarily_unavailable") throw error;
      return await api(PayoutService).getPayout({ id: client_ref });
    }
  });
  return shownPayout(await operators(PayoutService).cancelPayout({ id: made.id }), collected);
}

async function testEndpoints({ api }: Kitchen): Promise<Shown> {
  const json = jsonOf(TestEndpointsResponseSchema, await api(WebhookService).testEndpoints({}));
  const people = table<JsonObject>(
    rowsOf(json),
    [
      ["ENDPOINT", (row) => cell(row, "endpoint_id")],
      ["URL", (row) => cell(row, "url")],
      ["DELIVERED", (row) => cell(row, "delivered")],
      ["STATUS", (row) => cell(row, "status_code")],
      ["ERROR", (row) => cell(row, "error")],
    ],
    "No endpoints.",
  );
  return { json, people };
}

/** Makes a payout; where the balance is too low, its money is collected first, as a merchant's would be. */
async function funded(
  kitchen: Kitchen,
  make: () => Promise<Payout>,
): Promise<{ made: Payout; collected: Payment | null }> {
  try {
    return { made: await make(), collected: null };
  } catch (error) {
    if (refusedBy(error).code !== "insufficient_funds") throw error;
  }
  // Twice the amount leaves room for both fees.
  const more = { ...kitchen, amount_minor: kitchen.amount_minor * 2n, client_ref: `${kitchen.client_ref}-funds` };
  const collected = await kitchen.api(PaymentService).createPayment(paymentOf(more, "01"), once());
  return { made: await make(), collected };
}

function shownPayout(payout: Payout, collected: Payment | null): Shown {
  const json = jsonOf(PayoutSchema, payout);
  const before = collected === null ? "" : `Payment ${collected.reference} was collected for it.\n`;
  return { json, people: `${before}Payout ${payout.reference} is ${cell(json, "status")}.` };
}

/** Asks until the operation is where it was to go. */
async function settled<O extends { status: number; reference: string }>(
  made: O,
  ask: () => Promise<O>,
  wanted: number,
): Promise<O> {
  const end = performance.now() + WAIT_MS;
  for (let seen = made; ; seen = await ask()) {
    if (seen.status === wanted) return seen;
    if (performance.now() > end) {
      throw new Refused(
        "temporarily_unavailable",
        `${made.reference} is made but has not come that far within ${WAIT_MS / 1_000} s.`,
      );
    }
    await new Promise((wake) => setTimeout(wake, ASK_EVERY_MS));
  }
}

function paymentOf({ amount_minor, client_ref }: Kitchen, row: string) {
  return { ...moneyOf(amount_minor), clientRef: client_ref, payer: { phone: phoneOf(row), name: "Awa Kone" } };
}

function payoutOf({ amount_minor, client_ref }: Kitchen, row: string) {
  const destination = { type: "mobile_wallet", phone: phoneOf(row), name: "Awa Kone" };
  return { ...moneyOf(amount_minor), clientRef: client_ref, destination };
}

function moneyOf(amount_minor: bigint) {
  return { amountMinor: amount_minor, assetId: "ast_xof", platformId: "plt_mtn_ci" };
}

/** The sandbox reads the outcome from the last two digits. */
function phoneOf(row: string): string {
  return `+22505040302${row}`;
}

function once() {
  return { headers: { "idempotency-key": randomUUID() } };
}
