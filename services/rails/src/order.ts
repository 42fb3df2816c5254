// What rails is asked to do, by kind, and the call to a connector that it comes to. A further kind is a member here, one of
// the port, and its rows in the simulator.

import type { RailAnswer } from "./attempt.ts";
import type { NewAttempt } from "./attempt-store.ts";
import type { Charge, Connector, Disbursement, Reversal } from "./connector.ts";
import { readDestination } from "./destination.ts";
import { readPayer } from "./payer.ts";

type Routed = {
  /** Open rails by priority. */
  readonly rails: readonly string[];
  readonly forced: boolean;
};

export type CollectOrder = NewAttempt &
  Routed & { readonly kind: "collection"; readonly expires_at: Date } & Pick<
    Charge,
    "description" | "return_url" | "cancel_url" | "merchant_name"
  >;
export type PayOutOrder = NewAttempt &
  Routed & { readonly kind: "payout"; readonly expires_at: null } & Pick<Disbursement, "description" | "merchant_name">;
export type RefundOrder = NewAttempt &
  Routed & { readonly kind: "refund"; readonly expires_at: null } & Pick<
    Reversal,
    "description" | "merchant_name" | "of_reference"
  > & {
    /** The collection that is given back; its payer's details were kept under this id. */
    readonly of_operation_id: string;
  };
/** What is sent out. */
export type SendOrder = PayOutOrder | RefundOrder;
export type Order = CollectOrder | SendOrder;

/** One call as it will leave: by which rail, under which name it is counted. */
export type RailCall = {
  readonly rail: string;
  readonly call: "collect" | "pay_out" | "give_back";
  readonly run: (connector: Connector, signal: AbortSignal) => Promise<RailAnswer>;
};

/** Under whose id the vault keeps the details of an order. */
export function keeperOf(order: Order): string {
  return order.kind === "refund" ? order.of_operation_id : order.operation_id;
}

/** The call of an order by a rail; `details` is what the vault keeps for it. Raw details are in memory from here on. */
export function callOf(order: Order, rail: string, details: Buffer | undefined): RailCall {
  if (order.kind === "collection") {
    const charge: Charge = { ...order, rail, payer: details === undefined ? {} : readPayer(details) };
    return { rail, call: "collect", run: (connector, signal) => connector.collect(charge, signal) };
  }
  if (order.kind === "refund") {
    const reversal: Reversal = { ...order, rail, payer: details === undefined ? {} : readPayer(details) };
    return {
      rail,
      call: "give_back",
      run(connector, signal) {
        if (connector.giveBack === undefined) throw new Error(`${connector.name} gives nothing back`);
        return connector.giveBack(reversal, signal);
      },
    };
  }
  if (details === undefined) throw new Error("bug: an order is about to be sent to nobody knows where");
  const disbursement: Disbursement = { ...order, rail, destination: readDestination(details) };
  return {
    rail,
    call: "pay_out",
    run(connector, signal) {
      if (connector.payOut === undefined) throw new Error(`${connector.name} does not pay out`);
      return connector.payOut(disbursement, signal);
    },
  };
}
