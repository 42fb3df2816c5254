// SIGKILL of payouts, collections, rails and ledger in each phase of each operation: it goes on by itself soon after
// the restart, as the same operation, under the same reference at the operator. CAURI_PHASES sets how many of the phases are
// tried (8 unless given, chosen anew each time); 1000 tries every one.

import assert from "node:assert/strict";
import { after, before, type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type CrashPoint, type CrashPoints, openCrashPoints } from "./crash-points.ts";
import {
  type Answer,
  balance,
  cauri,
  eventually,
  fund,
  type Merchant,
  merchant,
  operate,
  paymentBody,
  paymentIs,
  payoutBody,
} from "./house.ts";
import { readyAgain, sigkill, startedAgain } from "./kills.ts";

/** From the moment in which the killed room is back. */
const RESUMED_WITHIN_MS = 10_000;
/** For a machine with less than two cores to spare; what each kill took is printed. */
const MARGIN_MS = 5_000;
/** And as much more as so many restarts of the killed room take there, which is a second or two where nothing else runs. */
const MARGIN_RESTARTS = 10;
/** Slow enough for one key's limit. */
const LOOK_MS = 300;
const FUNDED = 10_000_000;
const PLATFORM = "plt_mtn_ci";

type Room = "payouts" | "collections" | "rails" | "ledger";
type Phase = CrashPoint & {
  readonly name: string;
  /** Before this write nothing of the operation is there: the merchant's retry is the first request. */
  readonly is_first?: true;
};
type Operation = {
  readonly name: string;
  /** Rooms on its way. */
  readonly rooms: readonly Room[];
  /** Its writes in their order, of one account. */
  readonly phases: (account: string) => readonly Phase[];
  /** What stands before it begins, e.g. the payment of a refund. */
  readonly prepare?: (at: Merchant, ref: string) => Promise<void>;
  /** Asks for it; answers what the merchant or the operator was told, or null where that was no answer at all. */
  readonly begin: (at: Merchant, ref: string) => Promise<number | null>;
  readonly path: string;
  readonly end: string;
  /** What one of them takes from the available balance. */
  readonly takes: number;
  /** References of it that an operator outside knows; of a refund also its payment's. */
  readonly sent: number;
};

const post = async (at: Merchant, path: string, body: Record<string, unknown>, ref: string): Promise<number | null> => {
  try {
    return (await at.test.post(path, { ...body, client_ref: ref }, { "idempotency-key": ref })).status;
  } catch {
    return null;
  }
};

/** As a merchant does: asks again after a 5xx, for a room that was just killed may still be unknown to another. */
async function untilMade(ask: () => Promise<number | null>): Promise<void> {
  const slowly = async (): Promise<number | null> => {
    const status = await ask();
    if (status !== 201 && status !== 200) await sleep(LOOK_MS);
    return status;
  };
  await eventually("it is made", slowly, (status) => status === 201 || status === 200);
}

const here = { asset_id: "ast_xof", platform_id: PLATFORM };

/** The attempt at the rail, from its intent to its final word. */
function railPhases(account: string): Phase[] {
  const [room, mine] = ["rails", `new.account = '${account}'`];
  const reaches = (state: string) => `${mine} and new.state = '${state}' and old.state <> new.state`;
  return [
    { name: "attempt", room, table: "attempts", event: "insert", when: mine },
    { name: "operator's books", room, table: "simulator_charges", event: "insert", when: mine },
    { name: "rail's answer", room, table: "attempts", event: "update", when: reaches("pending") },
    { name: "rail's word", room, table: "attempts", event: "update", when: reaches("success") },
  ];
}

function posting(name: string, prefix: string, kind: string): Phase {
  const when = `new.kind = '${kind}' and new.operation_id like '${prefix}\\_%'`;
  return { name, room: "ledger", table: "transfers", event: "insert", when };
}

function state(name: string, room: Room, table: string, account: string, status: string): Phase {
  const when = `new.account = '${account}' and new.status = '${status}' and old.status <> new.status`;
  return { name, room, table, event: "update", when };
}

/** The rail's phases between the room's own: the answer comes before the state that follows it. */
function sentPhases(account: string, begun: readonly Phase[], answered: readonly Phase[], ended: readonly Phase[]) {
  const rail = railPhases(account);
  return [...begun, ...rail.slice(0, 3), ...answered, ...rail.slice(3), ...ended];
}

const PAYOUT: Operation = {
  name: "payout",
  rooms: ["payouts", "rails", "ledger"],
  phases: (account) =>
    sentPhases(
      account,
      [
        first("draft", "payouts", "payouts", `new.account = '${account}'`),
        posting("hold", "po", "hold"),
        state("initiated", "payouts", "payouts", account, "initiated"),
      ],
      [state("pending", "payouts", "payouts", account, "pending")],
      [posting("capture", "po", "capture"), state("success", "payouts", "payouts", account, "success")],
    ),
  begin: (at, ref) => post(at, "/v1/payouts", payoutBody("00"), ref),
  path: "/v1/payouts",
  end: "success",
  takes: 10_100,
  sent: 1,
};

const PAYMENT: Operation = {
  name: "payment",
  rooms: ["collections", "rails", "ledger"],
  phases: (account) =>
    sentPhases(
      account,
      [first("initiated", "collections", "payments", `new.account = '${account}'`)],
      [posting("hold", "pay", "hold"), state("pending", "collections", "payments", account, "pending")],
      [posting("capture", "pay", "capture"), state("success", "collections", "payments", account, "success")],
    ),
  begin: (at, ref) => post(at, "/v1/payments", paymentBody("00"), ref),
  path: "/v1/payments",
  end: "success",
  takes: -9_850,
  sent: 1,
};

const REBALANCE: Operation = {
  name: "rebalance",
  rooms: ["payouts", "ledger"],
  phases: (account) => [
    first("intent", "payouts", "movements", `new.account = '${account}'`),
    posting("posting", "rb", "post"),
    { name: "visible", room: "payouts", table: "rebalances", event: "insert", when: `new.account = '${account}'` },
  ],
  begin: (at, ref) =>
    post(
      at,
      "/v1/rebalances",
      { amount_minor: 1_000, asset_id: "ast_xof", from_platform_id: PLATFORM, to_platform_id: "plt_orange_ci" },
      ref,
    ),
  path: "/v1/rebalances",
  end: "success",
  takes: 1_000,
  sent: 0,
};

const TRANSFER: Operation = {
  name: "transfer",
  rooms: ["payouts", "ledger"],
  phases: (account) => [
    first("intent", "payouts", "movements", `new.account = '${account}'`),
    posting("posting", "tr", "post"),
    { name: "visible", room: "payouts", table: "transfers", event: "insert", when: `new.account = '${account}'` },
  ],
  begin: (at, ref) =>
    post(at, "/v1/transfers", { ...here, amount_minor: 1_000, destination_account_id: receiver.account_id }, ref),
  path: "/v1/transfers",
  end: "success",
  takes: 1_000,
  sent: 0,
};

const WITHDRAWAL: Operation = {
  name: "withdrawal",
  rooms: ["payouts", "rails", "ledger"],
  phases: (account) =>
    sentPhases(
      account,
      [
        first("approval", "payouts", "claims", `new.account = '${account}' and new.kind = 'approval'`),
        posting("hold", "wr", "hold"),
        state("approved", "payouts", "withdrawals", account, "approved"),
      ],
      [state("processing", "payouts", "withdrawals", account, "processing")],
      [posting("capture", "wr", "capture"), state("paid", "payouts", "withdrawals", account, "paid")],
    ),
  prepare: async (at, ref) => {
    await untilMade(() => post(at, "/v1/payout-requests", { ...here, amount_minor: 1_000 }, ref));
  },
  begin: async (at, ref) => {
    const { id } = (await at.test.get(`/v1/payout-requests/${ref}`)).body;
    const approve = operate("cauri.payouts.v1.WithdrawalService/ApproveWithdrawal", { id });
    return await approve.then(
      () => 201,
      () => null,
    );
  },
  path: "/v1/payout-requests",
  end: "paid",
  takes: 1_000,
  sent: 1,
};

const REFUND: Operation = {
  name: "refund",
  rooms: ["collections", "rails", "ledger"],
  phases: (account) =>
    sentPhases(
      account,
      [
        first("draft", "collections", "refunds", `new.account = '${account}'`),
        posting("hold", "re", "hold"),
        state("initiated", "collections", "refunds", account, "initiated"),
      ],
      [state("pending", "collections", "refunds", account, "pending")],
      [posting("capture", "re", "capture"), state("success", "collections", "refunds", account, "success")],
    ),
  prepare: async (at, ref) => {
    await untilMade(() => post(at, "/v1/payments", paymentBody("00"), ref));
    await paymentIs(at.test, ref, "success");
  },
  begin: (at, ref) => post(at, "/v1/refunds", { payment_id: ref }, ref),
  path: "/v1/refunds",
  end: "success",
  // What the payment had brought came before it: the collection's fee is not given back.
  takes: 150,
  sent: 2,
};

const OPERATIONS = [PAYOUT, PAYMENT, REFUND, TRANSFER, REBALANCE, WITHDRAWAL];

function first(name: string, room: Room, table: string, when: string): Phase {
  return { name, room, table, event: "insert", when, is_first: true };
}

let points: CrashPoints;
let receiver: Merchant;
const merchants = new Map<string, { readonly at: Merchant; count: number }>();

before(async () => {
  points = await openCrashPoints();
  receiver = await merchant("Phases receiver");
  const line = { operation: "FEE_OPERATION_WITHDRAWAL", asset_id: "ast_xof", percent_bps: 0, fixed_minor: 0 };
  for (const { name } of OPERATIONS) {
    const at = await merchant(`Phases of a ${name}`);
    const { account_id } = at;
    const options = [{ name: "internal_transfers", on: true }];
    await operate("cauri.accounts.v1.AccountService/SetAccount", { account_id, options });
    await operate("cauri.accounts.v1.ReferenceService/SetFee", { ...line, account_id });
    const destination = { type: "mobile_wallet", phone: "+2250504030200" };
    await operate("cauri.accounts.v1.AccountService/SetSettlement", { account_id, platform_id: PLATFORM, destination });
    await fund(account_id, FUNDED);
    merchants.set(name, { at, count: 0 });
  }
});
after(() => points.close());

async function killIn(t: TestContext, { operation, phase_at, victim }: Round): Promise<void> {
  const own = merchants.get(operation.name) ?? assert.fail();
  const { at } = own;
  const phase = operation.phases(at.account_id)[phase_at] ?? assert.fail();
  own.count += 1;
  const ref = `phase-${own.count}`;
  await operation.prepare?.(at, ref);
  await points.stopAt(phase);
  const begun = operation.begin(at, ref);
  await points.reached();
  const killed = performance.now();
  const pid = sigkill(victim);
  await points.release(phase.room === victim);
  await startedAgain(victim, pid);
  const back = performance.now();
  await readyAgain();
  const told = await begun;
  // A merchant who was told a 502 or 503 comes back; so does one whose first row was lost.
  const is_lost = phase.is_first === true && phase.room === victim && told !== 201;
  if (is_lost || told === 502 || told === 503) {
    await sleep(LOOK_MS);
    await untilMade(() => operation.begin(at, ref));
  }
  const read = async (): Promise<Answer["body"]> => {
    await sleep(LOOK_MS);
    return (await at.test.get(`${operation.path}/${ref}`)).body;
  };
  const margin_ms = MARGIN_MS + MARGIN_RESTARTS * (back - killed);
  const left_ms = RESUMED_WITHIN_MS + margin_ms - (performance.now() - back);
  const ended = await eventually(`${ref} goes on`, read, ({ status }) => status === operation.end, left_ms);
  t.diagnostic(`resumed ${((performance.now() - back) / 1_000).toFixed(1)} s after ${victim} was back`);
  assert.equal((await at.test.get(operation.path)).body.total, own.count, "one operation each");
  const sent = await points.referencesOf(at.account_id);
  assert.equal(sent.length, own.count * operation.sent, "each is at the operator once");
  assert.equal(sent.includes(ended.reference), operation.sent > 0, "under its own reference");
  const { available_minor, reserved_minor, pending_minor } = await balance(at.test);
  assert.deepEqual([available_minor, reserved_minor, pending_minor], [FUNDED - own.count * operation.takes, 0, 0]);
}

type Round = { readonly operation: Operation; readonly phase_at: number; readonly victim: Room; readonly name: string };

const every: Round[] = OPERATIONS.flatMap((operation) =>
  operation.phases("").flatMap(({ name }, phase_at) =>
    operation.rooms.map((victim) => ({
      operation,
      phase_at,
      victim,
      name: `${operation.name}: ${victim} is killed before "${name}" is written`,
    })),
  ),
);

function chosen(): readonly Round[] {
  const count = Number(process.env["CAURI_PHASES"] ?? 8);
  if (count >= every.length) return every;
  const shuffled = every.map((round) => ({ round, at: Math.random() })).sort((a, b) => a.at - b.at);
  return shuffled.slice(0, count).map(({ round }) => round);
}

for (const round of chosen()) {
  test(round.name, (t) => killIn(t, round));
}

test("afterwards the books are whole", async () => {
  const { stdout } = await cauri(["ledger", "verify", "--json"]);
  const { ok, problems } = JSON.parse(stdout);
  assert.deepEqual([ok, problems], [true, []]);
});
