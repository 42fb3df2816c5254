// A charge in the simulated operator's books, pure: its states, what is said of it, and what its page shows.

import { formatMinor } from "@cauri/money/amount";
import type { FailureCode } from "@cauri/money/failure";
import type { Mode } from "@cauri/money/mode";
import { type Moves, move, type StateOf } from "@cauri/money/moves";
import type { AttemptKind, RailAnswer } from "../attempt.ts";

/** `turned_down`: the call was refused and nothing happened; the operator only remembers that it was asked. */
export const chargeMoves = {
  turned_down: { accept: { to: "pending", ledger: "none", event: null } },
  pending: {
    settle: { to: "success", ledger: "none", event: "success" },
    reject: { to: "failed", ledger: "none", event: "failed" },
    cancel: { to: "cancelled", ledger: "none", event: "cancelled" },
    // Nobody is told: a charge that ran out is found by asking.
    expire: { to: "expired", ledger: "none", event: null },
  },
  // Of payouts alone: the operator sends the money back.
  success: { return: { to: "returned", ledger: "none", event: "returned" } },
  failed: { settle: { to: "success", ledger: "none", event: "success" } },
  cancelled: { settle: { to: "success", ledger: "none", event: "success" } },
  expired: { settle: { to: "success", ledger: "none", event: "success" } },
  returned: {},
} as const satisfies Moves;

export type ChargeState = StateOf<typeof chargeMoves>;
export type ChargeNews = "settle" | "reject" | "cancel" | "return";

export type SimCharge = {
  readonly kind: AttemptKind;
  readonly reference: string;
  readonly account: string;
  readonly mode: Mode;
  readonly rail: string;
  readonly amount_minor: bigint;
  readonly currency: string;
  readonly scale: number;
  readonly state: ChargeState;
  readonly failure_code: FailureCode | null;
  /** Names its payment page; null: it has none. */
  readonly token: string | null;
  readonly payment_url: string | null;
  readonly deep_link: string | null;
  readonly qr: string | null;
  readonly merchant_name: string;
  readonly description: string | null;
  readonly return_url: string | null;
  readonly cancel_url: string | null;
  readonly expires_at: Date | null;
};

/** What happens to a charge later, by itself. */
export type Plan = {
  readonly news: ChargeNews;
  /** The state from then on; null: it has it already, and only the telling is left. */
  readonly becomes: ChargeState | null;
  /** Times that the callback is sent; 0: the operator stays silent. */
  readonly copies: 0 | 1 | 2;
  /** From now on the account's clock. */
  readonly after_ms: number;
  /** When it comes back, once its success is told; null: it does not. */
  readonly return_after_ms: number | null;
  /** Whoever books it tells it at once. */
  readonly is_taken: boolean;
};

/** A charge as it is written, with what its account's clock makes of it. */
export type Booked = SimCharge & {
  readonly becomes: ChargeState | null;
  /** What was scheduled has happened. */
  readonly is_due: boolean;
  /** The payer's time is over. */
  readonly is_over: boolean;
};

/** The charge as it stands now. What was scheduled is success or its return, which know no failure. */
export function standing({ becomes, is_due, is_over, ...charge }: Booked): SimCharge {
  if (becomes !== null && is_due) return { ...charge, state: becomes, failure_code: null };
  const run_out = is_over && charge.state === "pending" ? nextState(charge.state, "expire") : null;
  return run_out === null ? charge : { ...charge, state: run_out };
}

/** Where these news move a charge, or null where no arrow is drawn. */
export function nextState(state: ChargeState, news: ChargeNews | "expire" | "accept"): ChargeState | null {
  return move(chargeMoves, state, news)?.to ?? null;
}

/** What the operator says of a charge, in its call's answer, its callbacks and when asked. */
export function answerFor(charge: SimCharge): RailAnswer {
  const { payment_url, deep_link, qr } = charge;
  const handoff = {
    ...(payment_url === null ? {} : { payment_url }),
    ...(deep_link === null ? {} : { deep_link }),
    ...(qr === null ? {} : { qr }),
  };
  switch (charge.state) {
    case "turned_down":
      return { outcome: "not_found" };
    case "pending":
      return { outcome: "pending", handoff };
    case "success":
      return { outcome: "success", amount_minor: charge.amount_minor, currency: charge.currency, handoff };
    case "failed":
      return { outcome: "failed", failure_code: charge.failure_code ?? "unknown" };
    case "cancelled":
      return { outcome: "cancelled" };
    case "returned":
      return { outcome: "returned", amount_minor: charge.amount_minor, currency: charge.currency };
    case "expired":
      return { outcome: "failed", failure_code: "expired" };
  }
}

export type Decision = "approve" | "decline" | "cancel";

export const newsOfDecision: { readonly [D in Decision]: ChargeNews } = {
  approve: "settle",
  decline: "reject",
  cancel: "cancel",
};

export type Page = {
  readonly reference: string;
  readonly amount: string;
  readonly merchant_name: string;
  readonly description: string;
  readonly state: "open" | "approved" | "declined" | "cancelled" | "expired";
  readonly next_url: string;
};

const PAGE_STATES = {
  pending: "open",
  success: "approved",
  failed: "declined",
  cancelled: "cancelled",
  expired: "expired",
  returned: "approved",
} as const;

/** What the payment page shows; null: there is no such page (yet). */
export function pageOf(charge: SimCharge): Page | null {
  if (charge.kind !== "collection" || charge.state === "turned_down") return null;
  const left = charge.state === "cancelled" ? (charge.cancel_url ?? charge.return_url) : charge.return_url;
  return {
    reference: charge.reference,
    amount: `${formatMinor(charge.amount_minor, charge.scale)} ${charge.currency}`,
    merchant_name: charge.merchant_name,
    description: charge.description ?? "",
    state: PAGE_STATES[charge.state],
    next_url: charge.state === "pending" ? "" : (left ?? ""),
  };
}
