// What one merchant wishes and what befalls it, at random: creations alone and at once, what operators decide and what the
// rail will say of each, news in any order, interruptions.

import fc from "fast-check";
import { AWAY, HOME, type Kind } from "./merchant-model.ts";
import type { Plan, Word } from "./merchant-rails.ts";
import { type Fate, WITHDRAWAL_FEE } from "./merchant-rooms.ts";

/** What a merchant asks for; amounts are small beside what payments bring, so that some fit and some don't. */
export type Wish = {
  readonly kind: Kind;
  readonly amount_minor: bigint;
  /** Of a refund: which payment, and whether it names an amount. */
  readonly of: number;
  readonly is_partial: boolean;
  /** Without key and client_ref nobody can ask for it again. */
  readonly named_by: "key" | "client_ref" | "nothing";
  readonly plan: Plan;
};

export type Step =
  /** `swept`: another process believes that the leases have run out, and takes over whatever is under way. */
  | { readonly do: "create"; readonly wishes: readonly Wish[]; readonly fate: Fate; readonly swept: boolean }
  | { readonly do: "retry"; readonly which: number; readonly fate: Fate; readonly swept: boolean }
  | { readonly do: "sweep"; readonly fate: Fate }
  /** Operators decide about a withdrawal request, several of them at once, or about a payout that has not left. */
  | {
      readonly do: "decide";
      readonly which: number;
      readonly says: readonly Verdict[];
      readonly fate: Fate;
      readonly swept: boolean;
    }
  | { readonly do: "cancel"; readonly which: number; readonly fate: Fate }
  | { readonly do: "settle"; readonly platform_id: string }
  | { readonly do: "look"; readonly fate: Fate }
  | { readonly do: "speak"; readonly which: number }
  | { readonly do: "hear"; readonly which: readonly number[]; readonly fate: Fate };

export type Verdict = "approve" | "reject";

const words = (kind: Kind): fc.Arbitrary<readonly Word[]> =>
  fc.constantFrom<readonly Word[]>(
    ["pending"],
    ["pending", "success"],
    ["pending", "failed"],
    ["pending", "failed", "success"],
    ["pending", "odd", "success"],
    ["pending", "odd"],
    ["success"],
    ["failed"],
    ["failed", "success"],
    ...(kind === "payment"
      ? ([["pending", "cancelled"], ["pending", "cancelled", "success"], ["success"], ["success"]] as const)
      : ([
          ["pending", "success", "returned"],
          ["success", "returned"],
        ] as const)),
  );

function amount(kind: Kind): fc.Arbitrary<bigint> {
  if (kind === "payment") return fc.bigInt({ min: 2_000n, max: 9_000n });
  const some = fc.bigInt({ min: 100n, max: 5_000n });
  if (kind !== "withdrawal") return some;
  // Less than its fee, just its fee, so that nothing goes out, or more.
  return fc.oneof({ weight: 6, arbitrary: some }, fc.constant(WITHDRAWAL_FEE), fc.constant(WITHDRAWAL_FEE - 1n));
}

export const wish: fc.Arbitrary<Wish> = fc
  .constantFrom<Kind>(
    "payment",
    "payout",
    "payout",
    "refund",
    "refund",
    "refund",
    "withdrawal",
    "withdrawal",
    "transfer",
    "rebalance",
  )
  .chain((kind) =>
    fc.record({
      kind: fc.constant(kind),
      amount_minor: amount(kind),
      of: fc.nat(5),
      is_partial: fc.boolean(),
      named_by: fc.constantFrom("key" as const, "key" as const, "client_ref" as const, "nothing" as const),
      plan: fc.record({
        turned_away: fc.oneof(
          { weight: 4, arbitrary: fc.constant([]) },
          fc.array(fc.constantFrom<Plan["turned_away"][number]>("refused", "unavailable", "lost"), {
            minLength: 1,
            maxLength: 2,
          }),
        ),
        is_unknown: fc.boolean(),
        words: words(kind),
      }),
    }),
  );

const fate: fc.Arbitrary<Fate> = fc.oneof(
  { weight: 2, arbitrary: fc.constant(null) },
  {
    weight: 3,
    arbitrary: fc.record({
      how: fc.constantFrom("dies" as const, "dies" as const, "loses" as const),
      at: fc.integer({ min: 1, max: 12 }),
    }),
  },
);
/** Several refunds of one payment at the same moment. */
const crowd = fc
  .tuple(fc.array(wish, { minLength: 2, maxLength: 4 }), fc.nat(5))
  .map(([some, of]) => some.map((one): Wish => ({ ...one, kind: "refund", of })));
const swept = fc.oneof({ weight: 4, arbitrary: fc.constant(false) }, fc.constant(true));
export const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("create" as const),
      wishes: fc.oneof(fc.tuple(wish), fc.array(wish, { minLength: 2, maxLength: 4 }), crowd),
      fate,
      swept,
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("retry" as const), which: fc.nat(20), fate, swept }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("sweep" as const), fate }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("decide" as const),
      which: fc.nat(20),
      says: fc.array(fc.constantFrom<Verdict>("approve", "approve", "approve", "reject"), {
        minLength: 1,
        maxLength: 3,
      }),
      fate,
      swept,
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("cancel" as const), which: fc.nat(20), fate }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("settle" as const), platform_id: fc.constantFrom(HOME, AWAY) }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("look" as const), fate }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("speak" as const), which: fc.nat(20) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("hear" as const),
      which: fc.array(fc.nat(40), { minLength: 1, maxLength: 5 }),
      fate,
    }),
  },
);
