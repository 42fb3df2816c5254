// The RPCs that read the books: decode, read on one snapshot, encode.

import { isRefusal, type Refusal, refuse, refuseField } from "@cauri/money/refusal";
import { BooksServiceService, type Entry, TimeBasis } from "@cauri/proto/ts/cauri/ledger/v1/books";
import type { Book as BookWord } from "@cauri/proto/ts/cauri/ledger/v1/ledger";
import { type Service, service } from "@cauri/rpc/server";
import { type Pool, type Queryable, snapshot } from "@cauri/store/pool";
import { readArchivedBefore, readArchives } from "./archive-store.ts";
import {
  checkArchived,
  checkStretch,
  readBound,
  readLaneFilter,
  readLimit,
  readName,
  readStretch,
  readUuid,
  writeArchive,
  writeBalances,
  writeBasis,
  writeBookAccount,
  writeBooked,
  writeClearing,
  writeEntry,
  writeTrialLane,
} from "./books-request.ts";
import { readCursor, writeCursor } from "./cursor.ts";
import {
  type FoundAccount,
  findAccount,
  type Movement,
  readBalances,
  readEntriesBefore,
  readLines,
  type Stretch,
} from "./past-store.ts";
import { statementLines } from "./statement.ts";
import { readTransfer } from "./transfer-store.ts";
import { type LaneFilter, readClearing, readLanes, readTrialBalance } from "./trial-store.ts";
import { patiently } from "./verify-store.ts";

const ENTRIES = { usual: 50, most: 500 };
const LINES = { usual: 200, most: 1_000 };
const CLEARING = { usual: 50, most: 200 };
/** Below what their routes give them. */
const TRIAL_S = 55;
const CLEARING_S = 25;

export function booksService({ pool }: { pool: Pool }): Service {
  return service(BooksServiceService, {
    getBookAccount: async (request) => {
      const when = readBound(request.at, request.basis);
      if (when !== null && isRefusal(when)) return when;
      return await withAccount(pool, request, async (tx, account) => {
        const gone = when === null ? null : checkArchived(when, await readArchivedBefore(tx));
        if (gone !== null) return gone;
        const balances = await readBalances(tx, account, when);
        return writeBookAccount(account, balances, request.at, when?.basis ?? null);
      });
    },
    listEntries: async (request) => {
      const limit = readLimit(request.limit, ENTRIES);
      if (typeof limit !== "number") return limit;
      return await withAccount(pool, request, async (tx, account) => {
        const list = ["entries", account.account_id];
        const cursor = readCursor(list, request.cursor);
        if (cursor !== null && isRefusal(cursor)) return cursor;
        const archived_before = await readArchivedBefore(tx);
        const rows = await readEntriesBefore(tx, account, cursor?.place ?? null, limit + 1, archived_before);
        const page = rows.slice(0, limit);
        return {
          data: page.map((row) => writeEntry(account, row, row.after)),
          nextCursor: rows.length > limit ? cursorAt(list, page, page.at(-1)?.after) : undefined,
          archivedBefore: archived_before ?? undefined,
        };
      });
    },
    getStatement: async (request) => {
      const stretch = readStretch(request);
      const limit = readLimit(request.limit, LINES);
      if (isRefusal(stretch)) return stretch;
      if (typeof limit !== "number") return limit;
      return await withAccount(pool, request, (tx, account) =>
        statementOf(tx, account, stretch, limit, request.cursor),
      );
    },
    getTransfer: async ({ transferId }) => {
      const transfer_id = readUuid(transferId, "transfer_id");
      if (typeof transfer_id !== "string") return transfer_id;
      const found = await snapshot(pool, (tx) => readTransfer(tx, transfer_id));
      if (found === null) return refuse("not_found", "no transfer has this id", { field: "transfer_id" });
      const { transfer, group, operation } = found;
      return {
        transfer: writeBooked(transfer),
        group: group.map(writeBooked),
        operation: operation.map(writeBooked),
      };
    },
    getTrialBalance: async (request) => {
      const when = readBound(request.at, request.basis);
      if (when !== null && isRefusal(when)) return when;
      const filter = readLaneFilter(request);
      if (isRefusal(filter)) return filter;
      const lanes = await patiently(pool, TRIAL_S, async (tx) => {
        const gone = when === null ? null : checkArchived(when, await readArchivedBefore(tx));
        return gone ?? (await checkOpen(tx, filter)) ?? (await readTrialBalance(tx, filter, when));
      });
      if (isRefusal(lanes)) return lanes;
      const data = lanes.map(writeTrialLane);
      const basis = when === null ? TimeBasis.RECORDED : writeBasis(when.basis);
      return { data, at: request.at, basis, balanced: data.every((lane) => lane.balanced) };
    },
    listClearing: async (request) => {
      const limit = readLimit(request.limit, CLEARING);
      if (typeof limit !== "number") return limit;
      const filter = readLaneFilter(request);
      if (isRefusal(filter)) return filter;
      const rows = await patiently(
        pool,
        CLEARING_S,
        async (tx) => (await checkOpen(tx, filter)) ?? (await readClearing(tx, filter, limit + 1)),
      );
      if (isRefusal(rows)) return rows;
      return { data: rows.slice(0, limit).map(writeClearing), hasMore: rows.length > limit };
    },
    listArchives: async () => ({ data: (await readArchives(pool)).map(writeArchive) }),
  });
}

/** Opening, lines and closing on one snapshot. The last page proves that they add up before it is told. */
async function statementOf(
  tx: Queryable,
  account: FoundAccount,
  stretch: Stretch,
  limit: number,
  text: string | undefined,
) {
  const { from, to, basis } = stretch;
  const gone = checkStretch(stretch, await readArchivedBefore(tx));
  if (gone !== null) return gone;
  const list = ["statement", account.account_id, from.getTime(), to.getTime(), basis];
  const cursor = readCursor(list, text);
  if (cursor !== null && isRefusal(cursor)) return cursor;
  const opening = await readBalances(tx, account, { before: from, basis });
  const closing = await readBalances(tx, account, { before: to, basis });
  const rows = await readLines(tx, account, stretch, cursor?.place ?? null, limit + 1);
  const page = rows.slice(0, limit);
  const has_more = rows.length > limit;
  const { lines, last, adds_up } = statementLines(cursor?.after ?? opening, page, closing);
  if (!has_more && !adds_up) {
    if (cursor === null) throw new Error(`bug: a statement of ${account.code} does not add up: run ledger verify`);
    return refuseField("cursor", "transfers of this stretch arrived since the first page: begin without a cursor");
  }
  return {
    account: writeBookAccount(account, closing, undefined, basis),
    from,
    to,
    basis: writeBasis(basis),
    opening: writeBalances(account.normal_side, opening),
    lines: lines.map(({ movement, after }): Entry => writeEntry(account, movement, after)),
    closing: writeBalances(account.normal_side, closing),
    nextCursor: has_more ? cursorAt(list, page, last) : undefined,
  };
}

/** Of a mistyped asset everything would be in balance. */
async function checkOpen(tx: Queryable, filter: LaneFilter): Promise<Refusal | null> {
  if (filter.asset_id === null || (await readLanes(tx, filter)).length > 0) return null;
  return refuse("not_found", "no account is open in this asset and book", { field: "asset_id" });
}

function cursorAt(list: readonly unknown[], page: readonly Movement[], after: Movement["after"] | undefined) {
  const last = page.at(-1);
  return last === undefined || after === undefined ? undefined : writeCursor(list, { place: last.place, after });
}

/** Reads on one snapshot what concerns one account; the account that isn't open is refused by name. */
async function withAccount<T>(
  pool: Pool,
  request: { readonly code: string; readonly assetId: string; readonly book: BookWord },
  read: (tx: Queryable, account: FoundAccount) => Promise<T | Refusal>,
): Promise<T | Refusal> {
  const name = readName(request);
  if (isRefusal(name)) return name;
  return await snapshot(pool, async (tx) => {
    const account = await findAccount(tx, name);
    if (account !== null) return await read(tx, account);
    return refuse("not_found", "no account of this code is open in this asset and book", { field: "code" });
  });
}
