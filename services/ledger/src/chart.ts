// The chart of accounts: what a code says about its account. Nothing else decides a normal side or an overdraft.

export type NormalSide = "debit" | "credit";

export type Chart = {
  readonly normal_side: NormalSide;
  /** The account may not go below zero, whatever is held counted as gone. */
  readonly no_overdraft: boolean;
  /** The merchant whose account it is. */
  readonly owner: string | null;
  readonly platform_id: string | null;
};

type Kind = {
  readonly normal_side: NormalSide;
  readonly no_overdraft: boolean;
  /** The parts of the code after the kind, in order. */
  readonly parts: readonly ("owner" | "platform_id" | "pot")[];
};

/** `float` may go below what its merchants are owed: that is an alarm, and no reason to refuse a customer's money. */
const KINDS: Readonly<Record<string, Kind>> = {
  merchant: { normal_side: "credit", no_overdraft: true, parts: ["owner", "platform_id"] },
  pot: { normal_side: "credit", no_overdraft: true, parts: ["pot"] },
  float: { normal_side: "debit", no_overdraft: false, parts: ["platform_id"] },
  fees: { normal_side: "credit", no_overdraft: false, parts: [] },
  interplatform: { normal_side: "credit", no_overdraft: false, parts: ["platform_id"] },
  suspense: { normal_side: "credit", no_overdraft: false, parts: ["platform_id"] },
  costs: { normal_side: "debit", no_overdraft: false, parts: ["platform_id"] },
  receivable: { normal_side: "debit", no_overdraft: false, parts: ["owner", "platform_id"] },
};

/** Ids of accounts, platforms, pots and assets: no colon, and nothing that an array literal would have to escape. */
export const NAME = /^[A-Za-z0-9_-]{1,64}$/;

const PART = NAME.source.slice(1, -1);
const CODE = new RegExp(
  `^(?:${Object.entries(KINDS)
    .map(([name, { parts }]) => [name, ...parts.map(() => PART)].join(":"))
    .join("|")})$`,
);

/** Whether a code is one of the chart: a look at each code of each transfer, so it takes nothing apart. */
export function isCode(code: string): boolean {
  return CODE.test(code);
}

/** What a code says, or null when it is none of the chart. */
export function chartOf(code: string): Chart | null {
  if (!isCode(code)) return null;
  const [name = "", ...names] = code.split(":");
  const kind = KINDS[name];
  if (kind === undefined) return null;
  const part = (wanted: Kind["parts"][number]) => names[kind.parts.indexOf(wanted)] ?? null;
  return {
    normal_side: kind.normal_side,
    no_overdraft: kind.no_overdraft,
    owner: part("owner"),
    platform_id: part("platform_id"),
  };
}
