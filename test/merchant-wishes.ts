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

const PAID: Plan = { turned_away: [], is_unknown: false, words: ["success"] };

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
          ["pending", "failed", "success", "returned"],
        ] as const)),
  );

function amount(kind: Kind): fc.Arbitrary<bigint> {
  if (kind === "payment") return fc.bigInt({ min: 2_000n, max: 9_000n });
  const some = fc.bigInt({ min: 100n, max: 5_000n });
  if (kind !== "withdrawal") return some;
  // Less than its fee, just its fee, so that nothing goes out, or more.
  return fc.oneof({ weight: 6, arbitrary: some }, fc.constant(WITHDRAWAL_FEE), fc.constant(WITHDRAWAL_FEE - 1n));
}

function wishOf(kind: Kind): fc.Arbitrary<Wish> {
  return fc.record({
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
  });
}

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
const swept = fc.oneof({ weight: 4, arbitrary: fc.constant(false) }, fc.constant(true));
const which = fc.nat(40);

/** Several refunds of one payment at the same moment. */
const crowd = fc
  .tuple(fc.array(wishOf("refund"), { minLength: 3, maxLength: 5 }), fc.nat(3))
  .map(([some, of]) => some.map((one): Wish => ({ ...one, of })));

function wishes(kinds: readonly Kind[]): fc.Arbitrary<readonly Wish[]> {
  const wish = fc.constantFrom(...kinds).chain(wishOf);
  const several = fc.array(wish, { minLength: 2, maxLength: 4 });
  return fc.oneof({ weight: 4, arbitrary: fc.tuple(wish) }, { weight: 3, arbitrary: several }, crowd);
}

/** Operators decide about one request, several of them at once. */
const decide: fc.Arbitrary<Step> = fc.record({
  do: fc.constant("decide" as const),
  which,
  says: fc.oneof(
    { weight: 3, arbitrary: fc.constant<Verdict[]>(["approve"]) },
    fc.array(fc.constantFrom<Verdict>("approve", "approve", "reject"), { minLength: 1, maxLength: 3 }),
  ),
  fate,
  swept,
});

function stepOf({ kinds, decisions, cancels }: Leaning): fc.Arbitrary<Step> {
  return fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({ do: fc.constant("create" as const), wishes: wishes(kinds), fate, swept }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("retry" as const), which, fate, swept }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("sweep" as const), fate }) },
    { weight: decisions, arbitrary: decide },
    { weight: cancels, arbitrary: fc.record({ do: fc.constant("cancel" as const), which, fate }) },
    {
      weight: 1,
      arbitrary: fc.record({ do: fc.constant("settle" as const), platform_id: fc.constantFrom(HOME, AWAY) }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("look" as const), fate }) },
    { weight: 4, arbitrary: fc.record({ do: fc.constant("speak" as const), which }) },
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant("hear" as const),
        which: fc.array(which, { minLength: 1, maxLength: 5 }),
        fate,
      }),
    },
  );
}

/** What a life is mostly about, and begins with, so that what needs several of one kind is met often enough. */
type Leaning = {
  readonly kinds: readonly Kind[];
  readonly decisions: number;
  readonly cancels: number;
  readonly funds: { readonly min: bigint; readonly max: bigint };
  readonly opening: fc.Arbitrary<readonly Wish[]>;
};

const LEANINGS: readonly Leaning[] = [
  {
    kinds: ["payment", "payout", "payout", "refund", "refund", "withdrawal", "transfer", "rebalance"],
    decisions: 2,
    cancels: 1,
    // Many have too little for all that they wish.
    funds: { min: 0n, max: 20_000n },
    opening: fc.constant([]),
  },
  {
    kinds: ["payment", "refund", "refund", "refund", "payout"],
    decisions: 1,
    cancels: 1,
    funds: { min: 10_000n, max: 20_000n },
    opening: crowd,
  },
  {
    kinds: ["payment", "payout", "payout", "payout"],
    decisions: 1,
    cancels: 6,
    funds: { min: 10_000n, max: 20_000n },
    opening: fc.constant([]),
  },
  {
    kinds: ["payment", "withdrawal", "withdrawal", "payout", "transfer"],
    decisions: 8,
    cancels: 1,
    // Each request finds enough when it is made; not all that are approved do.
    funds: { min: 3_000n, max: 8_000n },
    opening: fc.array(wishOf("withdrawal"), { minLength: 2, maxLength: 4 }),
  },
];

/** How what was not heard yet is heard in the end: the newest first, or in its order; and once more, or not. */
export type Hearing = { readonly is_backwards: boolean; readonly is_repeated: boolean };

export type Life = {
  /** Paid before anything else, so that there is something to give back. */
  readonly first: readonly Wish[];
  readonly funds: bigint;
  readonly opening: readonly Wish[];
  readonly steps: readonly Step[];
  readonly settles_on: string | null;
  readonly prices_withdrawals: boolean;
  readonly hearing: Hearing;
};

export const life: fc.Arbitrary<Life> = fc.constantFrom(...LEANINGS).chain((leaning) =>
  fc.record({
    first: fc.array(
      wishOf("payment").map((one) => ({ ...one, plan: PAID })),
      { minLength: 1, maxLength: 3 },
    ),
    funds: fc.bigInt(leaning.funds),
    opening: leaning.opening,
    steps: fc.array(stepOf(leaning), { minLength: 6, maxLength: 25, size: "max" }),
    // Few may not withdraw at all.
    settles_on: fc.oneof({ weight: 15, arbitrary: fc.constantFrom(HOME, AWAY) }, fc.constant(null)),
    prices_withdrawals: fc.oneof({ weight: 15, arbitrary: fc.constant(true) }, fc.constant(false)),
    hearing: fc.record({ is_backwards: fc.boolean(), is_repeated: fc.boolean() }),
  }),
);
