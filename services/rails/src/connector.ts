// The port: what every connector to an operator implements, and the registry that says which one serves a rail.
// Paying out and giving back are optional members beside `collect`; routing asks for the member it needs.

import type { Mode } from "@cauri/money/mode";
import type { AttemptKind, Handoff, RailAnswer } from "./attempt.ts";
import type { IncomingHeaders } from "./callback.ts";
import type { Destination } from "./destination.ts";

/** How long one call to an operator may take: the public deadline is 8 s and other rooms need their part of it. */
export const CALL_TIMEOUT_MS = 5_000;

/** One collection as its operator gets it. Raw payer details are in memory here, and only here. */
export type Charge = {
  readonly rail: string;
  readonly account: string;
  readonly mode: Mode;
  readonly operation_id: string;
  /** `PAY-…`. The operator must know the operation by it and take it once: it is what makes a repeat of the call safe. */
  readonly reference: string;
  readonly amount_minor: bigint;
  /** ISO 4217. */
  readonly currency: string;
  readonly scale: number;
  readonly platform_id: string;
  readonly payer: { readonly phone?: string; readonly name?: string; readonly email?: string };
  readonly description: string | null;
  readonly return_url: string | null;
  readonly cancel_url: string | null;
  readonly expires_at: Date;
  readonly merchant_name: string;
};

/** One payout as its operator gets it. The raw destination is in memory here, and only here. */
export type Disbursement = Pick<
  Charge,
  | "rail"
  | "account"
  | "mode"
  | "operation_id"
  | "amount_minor"
  | "currency"
  | "scale"
  | "platform_id"
  | "description"
  | "merchant_name"
> & {
  /** `PYT-…`; what makes a repeat of the call safe, as with a charge. */
  readonly reference: string;
  readonly destination: Destination;
};

/** What is to be given back of a collection, as its operator gets it. */
export type Reversal = Omit<Disbursement, "destination"> & {
  /** `PAY-…`: the operator knows by it what is given back. */
  readonly of_reference: string;
  /** Who had paid; raw details are in memory here, and only here. */
  readonly payer: Charge["payer"];
};

/** What is left of a charge, payout or refund once it is out: enough to ask for it. */
export type SentCharge = {
  readonly rail: string;
  readonly account: string;
  readonly mode: Mode;
  readonly reference: string;
  readonly handoff: Handoff;
};

/** A callback after its connector has looked at it. */
export type CallbackReading =
  | { readonly authentic: false }
  | {
      readonly authentic: true;
      /** The operator's own name for this message: the same message twice is one callback. */
      readonly callback_id: string;
      readonly reference: string;
      /** Null: the message is a hint (its operator signs nothing), so the rail is asked. Else its signature vouches for it. */
      readonly news: RailAnswer | null;
    };

export type Connector = {
  /** Names the connector in its callback's path and in the attempt row. */
  readonly name: string;
  readonly rails: readonly string[];
  /** What happens to invented payers says nothing about a real operator: a simulated rail has no health. */
  readonly is_simulated: boolean;
  /** Asks the payer for the money. Throws what the wire threw: `classify` says what that means. */
  readonly collect: (charge: Charge, signal: AbortSignal) => Promise<RailAnswer>;
  /** Sends money to a destination; absent where the operator only collects. Throws as `collect` does. */
  readonly payOut?: (disbursement: Disbursement, signal: AbortSignal) => Promise<RailAnswer>;
  /** Gives a collection back, in whole or in part; absent where the operator cannot. Throws as `collect` does. */
  readonly giveBack?: (reversal: Reversal, signal: AbortSignal) => Promise<RailAnswer>;
  /** Asks the operator by our reference. `not_found` only where the operator certainly has nothing. */
  readonly ask: (sent: SentCharge, signal: AbortSignal) => Promise<RailAnswer>;
  /** What a fault of a call or question tells: only an error from before the first byte left is `unavailable`. */
  readonly classify: (fault: unknown) => RailAnswer;
  /** Verifies and reads a callback; `now_ms` is real time, for the tolerance of its stamp. */
  readonly readCallback: (headers: IncomingHeaders, body: Buffer, now_ms: number) => CallbackReading;
};

export type Registry = {
  /** The connector that does this by this rail in this mode, or null: nobody is configured for it. */
  readonly serving: (rail: string, mode: Mode, kind: AttemptKind) => Connector | null;
  readonly named: (name: string) => Connector | null;
};

/** The member that a kind of attempt needs. */
const MEMBERS = { collection: "collect", payout: "payOut", refund: "giveBack" } as const satisfies {
  [K in AttemptKind]: keyof Connector;
};

/** The connectors of each mode in their order; which they are, the configuration says. */
export function openRegistry(config: { readonly [M in Mode]: readonly Connector[] }): Registry {
  const all = new Map([...config.test, ...config.live].map((connector) => [connector.name, connector]));
  return {
    serving(rail, mode, kind) {
      const does = (connector: Connector) => connector.rails.includes(rail) && connector[MEMBERS[kind]] !== undefined;
      return config[mode].find(does) ?? null;
    },
    named: (name) => all.get(name) ?? null,
  };
}
