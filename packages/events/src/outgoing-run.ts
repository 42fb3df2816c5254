// The creation of an operation that sends money out, step by step: key, terms, draft, holds, visible, rail, state. It may
// be interrupted anywhere and goes on from what is written, by the merchant's retry or by the sweeper.

import { acceptedBy, newsFor, type OutgoingAnswer } from "@cauri/money/outgoing";
import { isRefusal, type Refusal, refuse } from "@cauri/money/refusal";
import type { Caller } from "@cauri/rpc/caller";
import { type ClaimRequest, type DueClaim, decideClaims } from "@cauri/store/claims";
import { LeaseLost, underClaim, whenOvertaken, withFreshReference } from "@cauri/store/lease";
import { beginTogether, type Lease, underLease } from "@cauri/store/operation";
import { type Pool, type Tx, transact } from "@cauri/store/pool";
import { writeTogether } from "@cauri/store/together";
import {
  type ApplyWord,
  applyingWords,
  type OutgoingKind,
  type OutgoingOperation,
  type OutgoingRooms,
  reread,
} from "./outgoing.ts";

/** The route's deadline of 8 s and one second more (wire.md). */
export const OUTGOING_LEASE_MS = 9_000;
/** Rails asks a silent rail far more often by itself; the follow-up is for what rails cannot know. */
export const CHECK_EVERY_MS = 120_000;
/** The same where nobody knows whether the call arrived: sending again asks first, and sends what is not there. */
const CHECK_UNKNOWN_MS = 1_000;
/** Retry-After of a rail that can't be reached. */
const UNAVAILABLE_RETRY_S = 5;

export type Created<T> = { readonly operation: T; readonly outcome: "created" | "replayed" };

export type CreatedKind<O, Draft> = OutgoingKind<O> & {
  readonly route: string;
  /** Writes drafts, in their order; a refusal in the place of one that must not be. */
  readonly insert: (tx: Tx, drafts: readonly Draft[]) => Promise<readonly (O | Refusal)[]>;
  /** What did not happen, in the sentences of a refusal. */
  readonly nothing: string;
  readonly too_little: string;
};

export type Running<O, Draft> = {
  readonly applyWord: ApplyWord<O>;
  /** `prepare` is asked for what is new: everything that can refuse it before anything of it exists. */
  create(
    rooms: OutgoingRooms,
    asked: { readonly caller: Caller; readonly client_ref: string | null; readonly fingerprint: Buffer },
    prepare: (operation_id: string) => Promise<Draft | Refusal>,
  ): Promise<Created<O> | Refusal>;
  /** The sweeper's part: goes on where a crash interrupted, or ends what the merchant did not come back for. */
  sweep(rooms: OutgoingRooms, due: DueClaim): Promise<void>;
};

type Shown<O> = { readonly operation: O; readonly lease: Lease };
type Kind<O, Draft> = CreatedKind<O, Draft> & {
  readonly apply: ApplyWord<O>;
  readonly show: (pool: Pool, shown: Shown<O>) => Promise<O | null>;
};

export function running<O extends OutgoingOperation, Draft extends object>(
  given: CreatedKind<O, Draft>,
): Running<O, Draft> {
  const apply = applyingWords(given);
  const begin = beginTogether<Draft, O>((tx, drafts) => given.insert(tx, drafts));
  /** Draft -> initiated: from here GET finds it, and a second use of its client_ref is `already_exists`. */
  const show = writeTogether<Shown<O>, O>({
    idOf: ({ operation }) => operation.id,
    write: (tx, shown) =>
      given.table.show(
        tx,
        shown.map(({ operation }) => operation),
        CHECK_EVERY_MS,
      ),
    end: decideClaims,
  });
  const kind: Kind<O, Draft> = { ...given, apply, show };
  return {
    applyWord: apply,
    async create(rooms, asked, prepare) {
      const { operation, request_id } = asked.caller;
      if (operation === null) throw new Error("a creation came without the operation id that the gateway mints");
      const claim = claimOf(kind, asked, operation);
      const begun = await withFreshReference(`${kind.noun}s_reference`, () =>
        begin(rooms.pool, claim, () => prepare(operation)),
      );
      if (isRefusal(begun)) return begun;
      if ("replayed" in begun) {
        // The gateway's own repeat of a call that it believed lost: to the merchant it is the first answer.
        const outcome = begun.replayed === operation ? "created" : "replayed";
        return { operation: await reread(kind, rooms.pool, begun.replayed), outcome };
      }
      const { lease } = begun;
      const result = await underLease(rooms.pool, lease, () =>
        begun.begun === "new"
          ? runDraft(kind, rooms, begun.written, lease, request_id)
          : resume(kind, rooms, lease, request_id, false),
      ).catch(whenOvertaken);
      // A retry that went on with an interrupted creation gets its first answer, not a replay of one.
      return isRefusal(result) ? result : { operation: result, outcome: "created" };
    },
    async sweep(rooms, due) {
      const lease = { operation_id: due.operation_id, lease_no: due.lease_no };
      try {
        if (due.orphan && !due.decided) await abandon(kind, rooms, lease);
        else await resume(kind, rooms, lease, `sweep-${due.operation_id}`, due.give_up);
      } catch (error) {
        if (!(error instanceof LeaseLost)) throw error;
      }
    },
  };
}

function claimOf<O, Draft>(
  { route, noun }: Kind<O, Draft>,
  asked: Parameters<Running<O, Draft>["create"]>[1],
  operation_id: string,
): ClaimRequest {
  const { caller, client_ref, fingerprint } = asked;
  return {
    operation_id,
    account: caller.account,
    mode: caller.mode,
    route,
    kind: noun,
    key: caller.idempotency_key,
    client_ref,
    fingerprint,
    lease_ms: OUTGOING_LEASE_MS,
    takeover: true,
  };
}

/** From the draft on: the funds, then the rail. */
async function runDraft<O extends OutgoingOperation, Draft>(
  kind: Kind<O, Draft>,
  rooms: OutgoingRooms,
  draft: O,
  lease: Lease,
  request_id: string,
): Promise<O | Refusal> {
  const reserved = await rooms.ledger.reserve(draft);
  if (reserved !== "stands") {
    await erase(kind, rooms, lease);
    if (reserved === "insufficient_funds") return refuse("insufficient_funds", kind.too_little);
    // Nobody came back for it and its holds were released; only the gateway's own late repeat can stand here.
    return refuse("temporarily_unavailable", `the ${kind.noun} was given up; send it again`, { retry_after_s: 1 });
  }
  const shown = await kind.show(rooms.pool, { operation: draft, lease });
  if (shown === null) return await resume(kind, rooms, lease, request_id, false);
  return await conclude(kind, rooms, shown, await rooms.rails.send(shown, request_id), lease);
}

async function resume<O extends OutgoingOperation, Draft>(
  kind: Kind<O, Draft>,
  rooms: OutgoingRooms,
  lease: Lease,
  request_id: string,
  give_up: boolean,
): Promise<O | Refusal> {
  const operation = await claimed(kind, rooms.pool, lease);
  if (operation.status === "draft") return await runDraft(kind, rooms, operation, lease, request_id);
  // News, or an operator, had moved it on before its runner came to it.
  if (operation.status !== "initiated") {
    await transact(rooms.pool, (tx) => underClaim(tx, lease, "finish"));
    return operation;
  }
  const answer = give_up
    ? await rooms.rails.withhold(operation, request_id, "operator_unavailable")
    : await rooms.rails.send(operation, request_id);
  return await conclude(kind, rooms, operation, answer, lease);
}

async function conclude<O extends OutgoingOperation, Draft>(
  kind: Kind<O, Draft>,
  rooms: OutgoingRooms,
  operation: O,
  answer: OutgoingAnswer,
  lease: Lease,
): Promise<O | Refusal> {
  if ("word" in answer) {
    const { word } = answer;
    if (answer.kind === "unknown") await kind.table.checkWithin(rooms.pool, operation.id, CHECK_UNKNOWN_MS);
    if (newsFor(operation, word) !== "mispay") return await kind.apply(rooms, operation, word, lease);
    // The money is noted first; it ends no run, for the operation itself is still to be accepted.
    const noted = await kind.apply(rooms, operation, word, null);
    return await kind.apply(rooms, noted, acceptedBy(word), lease);
  }
  // Certainly nothing is at the rail: it stays `initiated` and waits for the merchant's retry, ten minutes at most.
  await transact(rooms.pool, (tx) => underClaim(tx, lease, "tell"));
  if (answer.kind === "refused") return refuse("upstream_error", `the operator refused the call; ${kind.nothing}`);
  return refuse("temporarily_unavailable", `the operator cannot be reached; ${kind.nothing}`, {
    retry_after_s: UNAVAILABLE_RETRY_S,
  });
}

/** A draft that nobody can ever ask for: its holds are posted, so that nothing is released unseen, released, and gone. */
async function abandon<O extends OutgoingOperation, Draft>(
  kind: Kind<O, Draft>,
  rooms: OutgoingRooms,
  lease: Lease,
): Promise<void> {
  const draft = await claimed(kind, rooms.pool, lease);
  if ((await rooms.ledger.reserve(draft)) === "stands") await rooms.ledger.post(draft, "release");
  await erase(kind, rooms, lease);
}

/** Draft, key and client_ref in one transaction: a retry is a new operation. */
async function erase<O, Draft>({ table }: Kind<O, Draft>, rooms: OutgoingRooms, lease: Lease): Promise<void> {
  await transact(rooms.pool, async (tx) => {
    await underClaim(tx, lease, "erase");
    await table.erase(tx, lease.operation_id);
  });
}

async function claimed<O, Draft>({ noun, table }: Kind<O, Draft>, pool: Pool, lease: Lease): Promise<O> {
  const operation = await table.find(pool, lease.operation_id);
  if (operation === null) throw new Error(`a claim without its ${noun}: ${lease.operation_id}`);
  return operation;
}
