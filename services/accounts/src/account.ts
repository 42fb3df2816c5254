// A merchant account: its states, its products and options, and what an operator may ask of it. Pure.

import type { Moves } from "@cauri/money/moves";
import { type Refusal, refuse, refuseField } from "@cauri/money/refusal";

/** Products that can be switched on; each opens a family of routes. */
export const PRODUCTS = ["instant_payment", "tontine"] as const;

/** Options that can be switched on. */
export const OPTIONS = ["internal_transfers"] as const;

/** The KYB life of an account. No arrow leads out of `closed`, and none back to `pending`. */
export const accountMoves = {
  pending: {
    approve: { to: "approved", ledger: "none", event: "account.changed" },
    close: { to: "closed", ledger: "none", event: "account.changed" },
  },
  approved: {
    suspend: { to: "suspended", ledger: "none", event: "account.changed" },
    close: { to: "closed", ledger: "none", event: "account.changed" },
  },
  suspended: {
    reinstate: { to: "approved", ledger: "none", event: "account.changed" },
    close: { to: "closed", ledger: "none", event: "account.changed" },
  },
  closed: {},
} as const satisfies Moves;

export type AccountStatus = keyof typeof accountMoves;
export type AccountCommand = "approve" | "suspend" | "reinstate" | "close";

export type Account = {
  readonly account_id: string;
  readonly name: string;
  readonly country: string;
  readonly email: string;
  readonly status: AccountStatus;
  readonly is_live: boolean;
  readonly products: readonly string[];
  readonly options: readonly string[];
  readonly closing_since: Date | null;
  readonly created_at: Date;
  /** Where its withdrawals go; null: nothing is set. */
  readonly settlement: Settlement | null;
};

/** Of the destination there are masks only; rails keeps the raw details under `kept_as`. */
export type Settlement = {
  readonly platform_id: string;
  readonly kept_as: string;
  readonly destination: {
    readonly type: string;
    readonly phone?: string | undefined;
    readonly iban?: string | undefined;
    readonly accountNumber?: string | undefined;
    readonly bankCode?: string | undefined;
    readonly name?: string | undefined;
  };
};

export type SignUp = { readonly name: string; readonly country: string; readonly email: string };
export type Switch = { readonly name: string; readonly on: boolean };

const NAME_LENGTH_MAX = 120;
const EMAIL_LENGTH_MAX = 254;

/** Deliberately plain: the proof of an address is a mail that arrives, not a grammar. */
const EMAIL = /^[^\s@]+@[^\s@.]+(\.[^\s@.]+)+$/;

/** CLDR's list of regions, which is how Node knows ISO 3166-1 without a table of ours. */
const REGIONS = new Intl.DisplayNames(["en"], { type: "region", fallback: "none" });

/** Approved and not about to be closed: it may receive, and its withdrawals may be approved. */
export function isOpenForMoney({ status, closing_since }: Account): boolean {
  return status === "approved" && closing_since === null;
}

/** Where a command leads from here, or the refusal that names the state. */
export function command(account: Account, asked: AccountCommand): AccountStatus | Refusal {
  if (account.closing_since !== null && asked !== "close") {
    return refuse("precondition_failed", "the account is being closed: wait for the outcome");
  }
  const row: { readonly [news: string]: { readonly to: AccountStatus } } = accountMoves[account.status];
  const next = Object.hasOwn(row, asked) ? row[asked] : undefined;
  if (next !== undefined) return next.to;
  return refuse("precondition_failed", `the account is ${account.status}: it cannot be ${PAST[asked]}`);
}

/** What the edge and people see: while a close is being decided the account's calls are refused, as in a suspension. */
export function statusShown(account: Pick<Account, "status" | "closing_since">): AccountStatus {
  return account.closing_since === null ? account.status : "suspended";
}

/** A sign-up as it is kept, or the refusal that names the field. */
export function checkSignUp(asked: SignUp): SignUp | Refusal {
  const name = asked.name.trim();
  if (name === "") return refuseField("name", "must not be empty");
  if ([...name].length > NAME_LENGTH_MAX) return refuseField("name", `must have at most ${NAME_LENGTH_MAX} characters`);
  if (hasControl(name)) return refuseField("name", "must not hold control characters");
  if (!isCountry(asked.country)) return refuseField("country", "must be an ISO 3166-1 alpha-2 country code, e.g. CI");
  if (asked.email.length > EMAIL_LENGTH_MAX || hasControl(asked.email) || !EMAIL.test(asked.email)) {
    return refuseField("email", "must be an e-mail address");
  }
  return { name, country: asked.country, email: asked.email };
}

/** The words that are on after these switches, in the order of the catalogue; the last switch of a word counts. */
export function switched(
  field: "products" | "options",
  before: readonly string[],
  switches: readonly Switch[],
): readonly string[] | Refusal {
  const catalogue: readonly string[] = field === "products" ? PRODUCTS : OPTIONS;
  const on = new Set(before);
  for (const [i, asked] of switches.entries()) {
    if (!catalogue.includes(asked.name)) {
      return refuseField(`${field}.${i}.name`, `must be one of ${catalogue.join(", ")}`);
    }
    if (asked.on) on.add(asked.name);
    else on.delete(asked.name);
  }
  return catalogue.filter((word) => on.has(word));
}

const PAST = { approve: "approved", suspend: "suspended", reinstate: "reinstated", close: "closed" } as const;

function isCountry(text: string): boolean {
  if (!/^[A-Z]{2}$/.test(text)) return false;
  const region = REGIONS.of(text);
  return region !== undefined && region !== "Unknown Region";
}

function hasControl(text: string): boolean {
  return /\p{Cc}/u.test(text) || !text.isWellFormed();
}
