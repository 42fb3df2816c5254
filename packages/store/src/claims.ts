// Claims: idempotency, leases and client_refs, built once for every room that creates operations.
// A key is looked at first, then the operation's own id, then the client_ref. The lease's clock is the database's.

import type { Mode } from "@cauri/money/mode";
import { type Refusal, refuse } from "@cauri/money/refusal";
import { pgBoolArray, pgBytesArray, pgNumArray, pgTextArray } from "./arrays.ts";
import type { Queryable, Tx } from "./pool.ts";
import { rowsOf } from "./rows.ts";

export { fingerprint } from "./fingerprint.ts";

// Each call is also there for many operations at once (peekAll, claimAll, holdLeases, finishClaims): one statement each.
// The order of a creation's calls:
//   peek         before anything is asked of another room: replay, refuse, or go on with what was interrupted
//   claim        in the transaction that writes the draft: takes the key, the client_ref and the lease
//   holdLease    first in every later transaction of the runner: touches one row, or the runner stops
//   decideClaim  with draft -> initiated: from here a second use of the client_ref is `already_exists`
//   finishClaim  with the final answer | eraseClaim when refused | tellUnfinished when a 5xx was told
//   yieldLease   after a fault of the house, so that the next runner need not wait for the lease's end
//   dueClaims    the sweeper takes over what a crash or a silent merchant left behind

/** The sweeper takes over so long after a lease ran out, so that a retry of the caller comes first. */
const SWEEP_GRACE_MS = 1_000;
/** So long an operation whose caller was told a 5xx waits for the retry; then it has failed (section 1 of the contract). */
export const TOLD_WAIT_MS = 600_000;
/** A told draft that nobody can name is erased sooner, but not before the gateway's own repeat, which names its id. */
const ORPHAN_WAIT_MS = 10_000;
/** Each new look means that another claim came or went meanwhile; after so many the honest answer is "busy". */
const MAX_LOOKS = 10;
const LEASES = rowsOf("operation_id text, lease_no integer");
const REQUEST =
  "operation_id text, account text, mode text, route text, kind text, key text, client_ref text, fingerprint bytea";
const [REQUESTS, NEW_CLAIMS] = [rowsOf(REQUEST), rowsOf(`${REQUEST}, decided boolean, lease_ms integer`)];

export type ClaimRequest = {
  /** The id minted for this request; the operation's own where the key is new. */
  readonly operation_id: string;
  readonly account: string;
  readonly mode: Mode;
  /** The route's template: with account and mode the scope of a key. */
  readonly route: string;
  /** The kind of resource: with account and mode the scope of a client_ref. */
  readonly kind: string;
  readonly key: string | null;
  readonly client_ref: string | null;
  readonly fingerprint: Buffer;
  /** The route's deadline plus 1 s. */
  readonly lease_ms: number;
  /** True where the caller carried `cauri-operation`: the lease of its own draft is then taken over at once. */
  readonly takeover: boolean;
  /** True where the operation is visible from its first transaction: it needs no `decideClaim`. */
  readonly decided?: boolean;
};

/** The right to act for an operation; every write names it and touches one row, or its runner stops. */
export type Lease = { readonly operation_id: string; readonly lease_no: number };

/** The lease is ours: for a new operation, or for one that goes on where it was interrupted. */
export type Claimed = { readonly claimed: "new" | "resumed"; readonly operation_id: string; readonly lease_no: number };

/** Done before; where the id is the caller's own, the gateway repeated a call and its outcome is still `created`. */
export type Replayed = { readonly replayed: string };

/** A claim would go on with this operation. */
export type Resumable = { readonly resumable: string };

export type DueClaim = {
  readonly operation_id: string;
  readonly account: string;
  readonly mode: Mode;
  readonly route: string;
  readonly kind: string;
  readonly lease_no: number;
  /** True when the merchant was told a 5xx and the wait is over: fail it, release what is held, publish its event. */
  readonly give_up: boolean;
  /** True when neither key nor client_ref can ever ask for it: a draft is released and erased. */
  readonly orphan: boolean;
  readonly decided: boolean;
};

type ClaimRow = {
  /** Place of the request that it stands in the way of, from 1. */
  ord: bigint;
  operation_id: string;
  same_key: boolean;
  same_request: boolean;
  state: "running" | "told" | "done";
  decided: boolean;
  lease_no: number;
  lease_over: boolean;
};

/** Takes the key, the client_ref and the lease, or says what stands in the way. Belongs into the draft's transaction. */
export async function claim(tx: Tx, request: ClaimRequest): Promise<Claimed | Replayed | Refusal> {
  for (let look = 0; look < MAX_LOOKS; look += 1) {
    // The insert comes first, because a new operation is by far the most frequent; it waits for a rival's commit.
    if ((await insertClaims(tx, [request])).size === 1)
      return { claimed: "new", operation_id: request.operation_id, lease_no: 1 };
    const verdict = judge(await readClaims(tx, [request]), request);
    // Null: the row that stood in the way is gone again (erased, rolled back), so the place is free.
    if (verdict === null) continue;
    if (!("row" in verdict)) return verdict;
    const lease_no = await takeOver(tx, verdict.row, request.lease_ms);
    if (lease_no !== null) return { claimed: "resumed", operation_id: verdict.row.operation_id, lease_no };
  }
  return stillRunning();
}

/** `claim` for many at once, in their order. What is new costs one statement for all; the rest is decided one by one. */
export async function claimAll(tx: Tx, requests: readonly ClaimRequest[]): Promise<(Claimed | Replayed | Refusal)[]> {
  const inserted = await insertClaims(tx, requests);
  const answers: (Claimed | Replayed | Refusal)[] = [];
  for (const request of requests) {
    const { operation_id } = request;
    // The gateway's own repeat may stand in the same batch, under the same id: one of the two is new.
    const is_new = inserted.delete(operation_id);
    answers.push(is_new ? { claimed: "new", operation_id, lease_no: 1 } : await claim(tx, request));
  }
  return answers;
}

/** What `claim` would say, without writing: null where the operation would be new. */
export async function peek(tx: Queryable, request: ClaimRequest): Promise<Replayed | Resumable | Refusal | null> {
  return verdictOf(await readClaims(tx, [request]), request);
}

/** `peek` for many at once, in their order. */
export async function peekAll(
  tx: Queryable,
  requests: readonly ClaimRequest[],
): Promise<(Replayed | Resumable | Refusal | null)[]> {
  const rows = await readClaims(tx, requests);
  return requests.map((request, at) =>
    verdictOf(
      rows.filter(({ ord }) => ord === BigInt(at + 1)),
      request,
    ),
  );
}

/** Locks the claim for the rest of the transaction; false means that another runner has taken over, and this one stops. */
export async function holdLease(tx: Tx, operation_id: string, lease_no: number): Promise<boolean> {
  return (await holdLeases(tx, [{ operation_id, lease_no }])).get(operation_id) === lease_no;
}

/** `holdLease` for many at once: by operation, the lease that still stands. Two runners of one may be among the many. */
export async function holdLeases(tx: Tx, leases: readonly Lease[]): Promise<Map<string, number>> {
  if (leases.length === 0) return new Map();
  const { rows } = await tx.query<Lease>(
    `select c.operation_id, c.lease_no
       from claims c join ${LEASES} as l on c.operation_id = l.operation_id and c.lease_no = l.lease_no
      where c.state <> 'done'
      order by c.operation_id for no key update of c`,
    leaseArrays(leases),
  );
  return new Map(rows.map(({ operation_id, lease_no }) => [operation_id, lease_no]));
}

/** The operation became visible: a second use of its client_ref is `already_exists` from here, and no erasure follows. */
export function decideClaim(tx: Tx, operation_id: string, lease_no: number): Promise<boolean> {
  return touch(tx, `update claims set decided = true`, operation_id, lease_no);
}

/** `decideClaim` for many at once, of which `holdLeases` has said that they stand. */
export async function decideClaims(tx: Tx, leases: readonly Lease[]): Promise<void> {
  if (leases.length === 0) return;
  await tx.query(
    `update claims c set decided = true
       from ${LEASES} as l
      where c.operation_id = l.operation_id and c.lease_no = l.lease_no and c.state <> 'done'`,
    leaseArrays(leases),
  );
}

/** The operation stands: from here its key answers with a replay. */
export async function finishClaim(tx: Tx, operation_id: string, lease_no: number): Promise<boolean> {
  return (await finishClaims(tx, [{ operation_id, lease_no }])) === 1;
}

/** `finishClaim` for many at once, of which `holdLeases` has said that they stand; how many they were. */
export async function finishClaims(tx: Tx, leases: readonly Lease[]): Promise<number> {
  if (leases.length === 0) return 0;
  const { rowCount } = await tx.query(
    `update claims c
        set state = 'done', decided = true, lease_until = null, told_at = null, due_at = null
       from ${LEASES} as l
      where c.operation_id = l.operation_id and c.lease_no = l.lease_no and c.state <> 'done'`,
    leaseArrays(leases),
  );
  return rowCount ?? 0;
}

/**
 * A 5xx is told to the merchant: the operation waits for the retry, ten minutes from the last time it was told. A draft
 * that nobody can name waits only for the gateway's own repeat.
 */
export async function tellUnfinished(
  tx: Tx,
  operation_id: string,
  lease_no: number,
  wait_ms: number = TOLD_WAIT_MS,
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `update claims
        set state = 'told', lease_until = null, told_at = clock_timestamp(),
            due_at = clock_timestamp() + interval '1 millisecond'
              * case when key is null and client_ref is null and not decided then least($3::float8, $4::float8) else $3::float8 end
      where operation_id = $1 and lease_no = $2 and state <> 'done'`,
    [operation_id, lease_no, wait_ms, ORPHAN_WAIT_MS],
  );
  return rowCount === 1;
}

/**
 * A fault of the house stopped the runner: a retry goes on at once, else the sweeper does after `wait_ms`. A draft that
 * nobody can name waits for the gateway's repeat, which must not find it erased and begin it anew under the same id.
 */
export async function yieldLease(
  tx: Queryable,
  operation_id: string,
  lease_no: number,
  wait_ms: number = SWEEP_GRACE_MS,
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `update claims
        set lease_until = clock_timestamp(),
            due_at = clock_timestamp() + interval '1 millisecond'
              * case when key is null and client_ref is null and not decided then $4::float8 else $3::float8 end
      where operation_id = $1 and lease_no = $2 and state = 'running'`,
    [operation_id, lease_no, wait_ms, ORPHAN_WAIT_MS],
  );
  return rowCount === 1;
}

/** Refused before anything was created: key and client_ref are free again, in the transaction that erases the draft. */
export function eraseClaim(tx: Tx, operation_id: string, lease_no: number): Promise<boolean> {
  return touch(tx, `delete from claims`, operation_id, lease_no);
}

/**
 * The sweeper takes over what is due, oldest first, each under a lease of its own: leases that ran out 1 s ago, and
 * operations whose merchant was told a 5xx and did not come back. Rows that somebody else holds are left alone.
 */
export async function dueClaims(tx: Tx, options: { limit: number; lease_ms: number }): Promise<DueClaim[]> {
  const { rows } = await tx.query<DueClaim>(
    `with due as (
       select operation_id, told_at is not null as give_up, key is null and client_ref is null as orphan
         from claims
        where due_at <= statement_timestamp()
        order by due_at
        limit $1
          for update skip locked)
     update claims c
        set state = 'running', lease_no = c.lease_no + 1,
            lease_until = clock_timestamp() + $2 * interval '1 millisecond',
            due_at = clock_timestamp() + ($2 + $3) * interval '1 millisecond'
       from due
      where c.operation_id = due.operation_id
     returning c.operation_id, c.account, c.mode, c.route, c.kind, c.lease_no, due.give_up, due.orphan, c.decided`,
    [options.limit, options.lease_ms, SWEEP_GRACE_MS],
  );
  return rows;
}

/**
 * Forgets the keys of finished operations claimed before this instant (24 hours ago, or what is configured); a client_ref
 * stays and protects for ever, a claim without one goes. Returns how many, so that a loop goes on while there are more.
 */
export async function forgetKeys(tx: Queryable, older_than: Date, limit = 1000): Promise<number> {
  const { rows } = await tx.query<{ forgotten: number }>(
    `with old as (
       select operation_id, client_ref is null as alone from claims
        where state = 'done' and (key is not null or client_ref is null) and created_at < $1
        order by created_at limit $2 for update skip locked),
     gone as (
       delete from claims c using old where c.operation_id = old.operation_id and old.alone returning 1),
     kept as (
       update claims c set key = null from old where c.operation_id = old.operation_id and not old.alone returning 1)
     select ((select count(1) from gone) + (select count(1) from kept))::integer as forgotten`,
    [older_than, limit],
  );
  return rows[0]?.forgotten ?? 0;
}

function verdictOf(rows: readonly ClaimRow[], request: ClaimRequest): Replayed | Resumable | Refusal | null {
  const verdict = judge(rows, request);
  return verdict !== null && "row" in verdict ? { resumable: verdict.row.operation_id } : verdict;
}

/** Decides by the rows that share the key, the id or the client_ref; a row comes back where its lease may be taken. */
function judge(rows: readonly ClaimRow[], request: ClaimRequest): Replayed | Refusal | { row: ClaimRow } | null {
  const own =
    rows.find((row) => request.key !== null && row.same_key) ??
    rows.find((row) => row.operation_id === request.operation_id);
  if (own !== undefined) {
    if (!own.same_request) {
      return refuse("concurrent_request", "this Idempotency-Key was used with another payload; use a new key");
    }
    if (own.state === "done") return { replayed: own.operation_id };
    const interrupted = own.state === "told" || own.lease_over;
    const repeated = request.takeover && own.operation_id === request.operation_id;
    return interrupted || repeated ? { row: own } : stillRunning();
  }
  const rival = rows[0];
  if (rival === undefined) return null;
  if (rival.decided) {
    return refuse("already_exists", "this client_ref is already used", { field: "client_ref" });
  }
  return refuse("concurrent_request", "another request with this client_ref is still running", {
    field: "client_ref",
    retry_after_s: 1,
  });
}

function stillRunning(): Refusal {
  return refuse("concurrent_request", "the first request with this Idempotency-Key is still running", {
    retry_after_s: 1,
  });
}

/**
 * The operations that were inserted. Two that race here both come out right: one inserts, the other waits for its commit
 * and then inserts nothing. Sorted, so that two batches with the same keys wait for each other instead of deadlocking.
 */
async function insertClaims(tx: Tx, requests: readonly ClaimRequest[]): Promise<Set<string>> {
  const { rows } = await tx.query<{ operation_id: string }>(
    `insert into claims
       (operation_id, account, mode, route, kind, key, client_ref, fingerprint, decided, lease_until, due_at)
     select r.operation_id, r.account, r.mode, r.route, r.kind, r.key, r.client_ref, r.fingerprint, r.decided,
            clock_timestamp() + r.lease_ms * interval '1 millisecond',
            clock_timestamp() + (r.lease_ms + $11) * interval '1 millisecond'
       from ${NEW_CLAIMS} as r
      order by r.account, r.mode, r.key, r.client_ref, r.operation_id
     on conflict do nothing
     returning operation_id`,
    [
      ...requestArrays(requests),
      pgBoolArray(requests.map(({ decided }) => decided ?? false)),
      pgNumArray(requests.map(({ lease_ms }) => lease_ms)),
      SWEEP_GRACE_MS,
    ],
  );
  return new Set(rows.map(({ operation_id }) => operation_id));
}

async function readClaims(tx: Queryable, requests: readonly ClaimRequest[]): Promise<ClaimRow[]> {
  const { rows } = await tx.query<ClaimRow>(
    `select r.ord, c.operation_id, c.state, c.decided, c.lease_no,
            coalesce(c.lease_until <= clock_timestamp(), false) as lease_over,
            coalesce(c.route = r.route and c.key = r.key, false) as same_key,
            c.account = r.account and c.mode = r.mode and c.route = r.route and c.fingerprint = r.fingerprint as same_request
       from ${REQUESTS} as r
       join claims c on c.operation_id = r.operation_id
         or (c.account = r.account and c.mode = r.mode and c.route = r.route and c.key = r.key)
         or (c.account = r.account and c.mode = r.mode and c.kind = r.kind and c.client_ref = r.client_ref)`,
    requestArrays(requests),
  );
  return rows;
}

function requestArrays(requests: readonly ClaimRequest[]): string[] {
  return [
    pgTextArray(requests.map(({ operation_id }) => operation_id)),
    pgTextArray(requests.map(({ account }) => account)),
    pgTextArray(requests.map(({ mode }) => mode)),
    pgTextArray(requests.map(({ route }) => route)),
    pgTextArray(requests.map(({ kind }) => kind)),
    pgTextArray(requests.map(({ key }) => key)),
    pgTextArray(requests.map(({ client_ref }) => client_ref)),
    pgBytesArray(requests.map((request) => request.fingerprint)),
  ];
}

function leaseArrays(leases: readonly Lease[]): string[] {
  return [
    pgTextArray(leases.map(({ operation_id }) => operation_id)),
    pgNumArray(leases.map(({ lease_no }) => lease_no)),
  ];
}

/** Raises the lease's number, unless somebody else did so first: then null, and the caller looks again. */
async function takeOver(tx: Tx, row: ClaimRow, lease_ms: number): Promise<number | null> {
  const { rows } = await tx.query<{ lease_no: number }>(
    `update claims set state = 'running', lease_no = lease_no + 1, told_at = null,
                       lease_until = clock_timestamp() + $3 * interval '1 millisecond',
                       due_at = clock_timestamp() + ($3 + $4) * interval '1 millisecond'
      where operation_id = $1 and lease_no = $2 and state <> 'done'
     returning lease_no`,
    [row.operation_id, row.lease_no, lease_ms, SWEEP_GRACE_MS],
  );
  return rows[0]?.lease_no ?? null;
}

async function touch(tx: Tx, change: string, operation_id: string, lease_no: number): Promise<boolean> {
  const { rowCount } = await tx.query(`${change} where operation_id = $1 and lease_no = $2 and state <> 'done'`, [
    operation_id,
    lease_no,
  ]);
  return rowCount === 1;
}
