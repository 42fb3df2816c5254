// Months that are over: written to a file that proves itself, taken away, and what still answers afterwards.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { copyFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { gunzipSync, gzipSync } from "node:zlib";
import { isRefusal, type Refusal } from "@cauri/money/refusal";
import { BooksServiceClient, TimeBasis } from "@cauri/proto/ts/cauri/ledger/v1/books";
import { Book } from "@cauri/proto/ts/cauri/ledger/v1/ledger";
import { connectClient } from "@cauri/rpc/client";
import { logger } from "@cauri/rpc/log";
import { startServer } from "@cauri/rpc/server";
import { openPool, transact } from "@cauri/store/pool";
import { testDatabase } from "@cauri/store/testing";
import { openAccounts } from "./account-store.ts";
import { APPEND, appendValues } from "./append.ts";
import { checkArchive, removeArchived, writeArchive } from "./archive.ts";
import { findLane, readState } from "./batch-store.ts";
import type { GroupOrder, TransferOrder } from "./books.ts";
import { booksService } from "./books-service.ts";
import { carryBalances } from "./carry-store.ts";
import { countDays } from "./day-store.ts";
import { decide } from "./decide.ts";
import { startEngine } from "./engine.ts";
import { appendOf } from "./lane.ts";
import { checkNew } from "./monitor.ts";
import { CODES, capture, FEES, FLOAT, group, hold, idOf, MERCHANT, order, post } from "./testing.ts";
import { verify } from "./verify.ts";

const database = await testDatabase("ledger", [join(import.meta.dirname, "../migrations")]);
const { pool } = database;
const admin_url = new URL(database.admin_url);
admin_url.searchParams.set("options", "-csearch_path=ledger");
const admin = openPool({ url: admin_url.toString(), name: "archive", max: 1 });
const settings = { CAURI_BIND_HOST: "127.0.0.1", CAURI_RPC_PORT: 0, CAURI_RPC_TOKEN: "token", CAURI_DRAIN_MS: 1_000 };
const log = logger("ledger", "silent");
const server = await startServer({ room: "ledger", settings, services: [booksService({ pool })], log });
const books = connectClient(BooksServiceClient, { address: `127.0.0.1:${server.port}`, token: "token" });
const dir = await mkdtemp(join(tmpdir(), "cauri-archive-"));
after(async () => {
  books.closeChannel();
  await server.drain();
  await admin.end();
  await database.close();
  await rm(dir, { recursive: true });
});

const SUSPENSE = "suspense:plt_a";
const [MARCH, APRIL] = ["2026-03-01", "2026-04-01"] as const;
const account = { code: MERCHANT, assetId: "ast_xof", book: Book.LIVE };

/** A batch of the engine's own making, dated in the past. */
async function postAt(at: string, transfers: readonly TransferOrder[]): Promise<void> {
  const groups: GroupOrder[] = [group(transfers)];
  const lane_id = (await findLane(pool, "ast_xof", "live")) ?? 0;
  await transact(pool, async (tx) => {
    const { state: now, previous } = await readState(tx, lane_id, groups);
    const state = { ...now, now_us: Date.parse(at) * 1000 };
    assert.ok(state.lane !== null && previous !== null);
    const append = appendOf(state.lane, previous, state, decide(state, groups), null);
    await tx.prepared(APPEND, appendValues(append));
  });
}

const effective = (word: string, amount: bigint, at: string) =>
  order("post", word, FLOAT, MERCHANT, amount, { effective_ms: Date.parse(at) });

before(async () => {
  await openAccounts(
    pool,
    [...CODES, SUSPENSE].map((code) => ({ code, asset_id: "ast_xof", book: "live" })),
  );
  await admin.query("update accounts set opened_at = '2026-03-01'");
  await admin.query("select open_months('2026-03-01', '2026-06-01')");
  await postAt("2026-03-02T10:00Z", [post("fund", FLOAT, MERCHANT, 100n)]);
  await postAt("2026-03-02T11:00Z", [hold("h1", MERCHANT, FLOAT, 10n), hold("h2", MERCHANT, FLOAT, 20n)]);
  await postAt("2026-03-09T10:00Z", [capture("c1", "h1", 7n), post("fee", MERCHANT, FEES, 1n)]);
  await postAt("2026-03-10T10:00Z", [post("too much", MERCHANT, FEES, 1_000n)]);
  await postAt("2026-03-11T10:00Z", [post("lost", FLOAT, SUSPENSE, 4n)]);
  await postAt("2026-03-12T10:00Z", [effective("dated ahead", 5n, "2026-05-03T00:00Z")]);
  await postAt("2026-03-31T23:59:59.999Z", [post("last", FLOAT, MERCHANT, 2n)]);
  await postAt("2026-04-01T00:00:00Z", [capture("c2", "h2")]);
  await postAt("2026-04-05T10:00Z", [effective("late", 3n, "2026-03-20T00:00Z")]);
});

function ok<T>(answer: T | Refusal): T {
  if (isRefusal(answer)) assert.fail(`refused: ${answer.field} ${answer.message}`);
  return answer;
}

const done = (told: { done: boolean; sentence: string; file?: string }) => {
  assert.ok(told.done, told.sentence);
  return told.file ?? told.sentence;
};

/** What the books tell of instants and stretches that are there with and without March. */
async function tell() {
  const at = async (time: string, basis: TimeBasis) =>
    ok(await books.getBookAccount({ ...account, at: new Date(Date.parse(time) - 1), basis })).balances;
  const stretch = async (basis: TimeBasis) => {
    const times = { from: new Date(APRIL), to: new Date("2100-01-01") };
    return ok(await books.getStatement({ ...account, ...times, basis, limit: undefined, cursor: undefined }));
  };
  return {
    now: ok(await books.getBookAccount({ ...account, at: undefined, basis: TimeBasis.UNSPECIFIED })),
    month: await at(APRIL, TimeBasis.RECORDED),
    later: await at("2026-04-03T12:00Z", TimeBasis.RECORDED),
    days: await Promise.all(
      ["2026-03-03", "2026-03-10", "2026-03-21", APRIL].map((day) => at(day, TimeBasis.EFFECTIVE)),
    ),
    may: await at("2026-05-03T12:00Z", TimeBasis.EFFECTIVE),
    statements: [await stretch(TimeBasis.RECORDED), await stretch(TimeBasis.EFFECTIVE)],
    transfer: ok(await books.getTransfer({ transferId: idOf("c1") })),
    clearing: ok(await books.listClearing({ assetId: undefined, book: Book.LIVE, limit: undefined })),
    trial: ok(
      await books.getTrialBalance({
        ...{ assetId: "ast_xof", book: Book.LIVE },
        ...{ at: new Date(Date.parse(APRIL) - 1), basis: TimeBasis.RECORDED },
      }),
    ),
  };
}

let file = "";
let whole: Awaited<ReturnType<typeof tell>>;

test("write: a month that is not over, has nothing, or follows one that is not archived is refused by name", async () => {
  const present = `${new Date().toISOString().slice(0, 7)}-01`;
  const sentences = await Promise.all(
    [present, "2026-02-01", APRIL].map(async (month) => (await writeArchive(admin, month, dir)).sentence),
  );
  assert.match(sentences[0] ?? "", /is not over for a day yet/);
  assert.match(sentences[1] ?? "", /nothing was recorded in 2026-02/);
  assert.match(sentences[2] ?? "", /2026-03 is to be archived first/);
});

test("write: an entry that no transfer has keeps the month from being archived, and with it from being taken away", async () => {
  await admin.query(`insert into entries select distinct on (e.recorded_at) a.account_id, e.recorded_at, e.debits_pending,
      e.debits_posted, e.credits_pending, e.credits_posted, e.position, e.lane_id
    from entries e join accounts a on a.lane_id = e.lane_id where e.recorded_at < '2026-04-01' and not exists (
      select from entries o where (o.account_id, o.recorded_at, o.position) = (a.account_id, e.recorded_at, e.position))
    order by e.recorded_at limit 1`);
  assert.match(
    (await writeArchive(admin, MARCH, dir)).sentence,
    /the books have 17 entries of 2026-03, its transfers 16/,
  );
  await admin.query("set session_replication_role = replica");
  await admin.query(`delete from entries e where not exists (select from transfers t
    where t.recorded_at = e.recorded_at and t.position = e.position and e.account_id in (t.debit_id, t.credit_id))`);
  await admin.query("reset session_replication_role");
});

test("write: the file proves itself, and a lost one is written again byte for byte", async () => {
  file = done(await writeArchive(admin, MARCH, dir));
  const [sha256] = (await admin.query<{ sha256: string }>("select encode(sha256, 'hex') as sha256 from archives")).rows;
  const told = done(await checkArchive(file, null));
  assert.match(told, /: 8 transfers, 16 entries and 7 batches hold/);
  assert.ok(told.includes(sha256?.sha256 ?? "nothing"));
  const first = await readFile(file);
  await rm(file);
  done(await writeArchive(admin, MARCH, dir));
  assert.ok(first.equals(await readFile(file)));
  const { data } = ok(await books.listArchives({}));
  assert.deepEqual(
    data.map(({ month, removedAt, anchors }) => [
      month,
      removedAt,
      anchors.map(({ batch, transfers }) => [batch, transfers]),
    ]),
    [["2026-03", undefined, [[7n, 8n]]]],
  );
});

const FORGERIES: readonly { name: string; from: string | RegExp; to: string; finds: RegExp }[] = [
  {
    name: "a changed amount",
    from: /("post",\d+,\d+,)"100"/,
    to: '$1"101"',
    finds: /batch 1 of ast_xof\/live: its hash/,
  },
  {
    name: "a missing batch",
    from: /\{"batch":\[\d+,"4".*\n/,
    to: "",
    finds: /batch 5 of ast_xof\/live: it follows batch 3/,
  },
  {
    name: "a forged entry",
    from: /("entries":\[\[0,\d+,"0",)"100"/,
    to: '$1"99"',
    finds: /batch 1 of .*: its entry of float:plt_a says debits_posted 99/,
  },
  {
    name: "a forged opening balance",
    from: /(\{"account":\[\d+,\d+,"fees",)"0","0","0","0"/,
    to: '$1"0","0","0","9"',
    finds: /its entry of fees says/,
  },
  { name: "a cut end", from: /\{"end".*\n/, to: "", finds: /has no end/ },
];

for (const { name, from, to, finds } of FORGERIES) {
  test(`check: finds ${name} in a file`, async () => {
    const text = gunzipSync(await readFile(file)).toString();
    const forged = text.replace(from, to);
    assert.notEqual(forged, text);
    const path = join(dir, "forged.jsonl.gz");
    await writeFile(path, gzipSync(forged));
    const sentence = await checkArchive(path, null).then(
      (told) => (told.done ? "it holds" : told.sentence),
      (error: Error) => error.message,
    );
    assert.match(sentence, finds);
  });
}

test("remove: refused while a loop has not read the month, with another file, and where the books say something else", async () => {
  assert.match(
    (await removeArchived(admin, MARCH, file)).sentence,
    /the carrying, the days, the monitor: not through with 2026-03 yet/,
  );
  while (await carryBalances(pool));
  while (await countDays(pool));
  assert.deepEqual(await checkNew(pool), []);
  assert.match((await removeArchived(admin, APRIL, file)).sentence, /2026-04 is not archived/);
  const other = join(dir, "other.jsonl.gz");
  await writeFile(other, gzipSync(gunzipSync(await readFile(file)), { level: 1 }));
  assert.match((await removeArchived(admin, MARCH, other)).sentence, /it is not the file that was written/);
  await admin.query("set session_replication_role = replica");
  const change = (amount: number) => `update transfers set amount = ${amount} where transfer_id = '${idOf("fee")}'`;
  await admin.query(change(2));
  assert.match(
    (await removeArchived(admin, MARCH, file)).sentence,
    /batch 3: its transfers in the books are not those of the file/,
  );
  await admin.query(change(1));
  await admin.query("reset session_replication_role");
  assert.deepEqual((await admin.query("select from archive_removals")).rows, []);
});

test("remove: what is told afterwards of the month's end, of its days, and of everything later is what was told before", async () => {
  const engine = startEngine({ pool });
  await engine.post([group([post("today", FLOAT, MERCHANT, 1n)])]);
  while (await countDays(pool));
  whole = await tell();
  assert.match(done(await removeArchived(admin, MARCH, file)), /^2026-03: 10 entries and 6 batches are in /);
  assert.deepEqual(await tell(), whole);
});

test("remove: the rest of the month is refused by name, and the list of entries says where it ends", async () => {
  const at = new Date("2026-03-15");
  for (const basis of [TimeBasis.RECORDED, TimeBasis.EFFECTIVE]) {
    const answer = await books.getBookAccount({ ...account, at, basis });
    assert.ok(isRefusal(answer) && /before 2026-04-01T00:00:00.000Z only the last millisecond/.test(answer.message));
    const trial = await books.getTrialBalance({ assetId: undefined, book: Book.LIVE, at, basis });
    assert.ok(isRefusal(trial));
  }
  const times = { from: at, to: new Date("2100-01-01"), limit: undefined, cursor: undefined };
  const statement = await books.getStatement({ ...account, ...times, basis: TimeBasis.RECORDED });
  assert.ok(isRefusal(statement) && statement.field === "from");
  const list = ok(await books.listEntries({ ...account, limit: undefined, cursor: undefined }));
  assert.deepEqual([list.data.length, list.archivedBefore?.toISOString()], [3, "2026-04-01T00:00:00.000Z"]);
});

test("remove: ids of the month answer for ever what they answered", async () => {
  const engine = startEngine({ pool });
  const results = async (transfers: readonly TransferOrder[]) => {
    const [answer] = await engine.post([group(transfers)]);
    return answer?.transfers.map(({ result, state }) => `${result} ${state}`);
  };
  assert.deepEqual(await results([capture("c1", "h1", 7n), post("fee", MERCHANT, FEES, 1n)]), [
    "exists captured",
    "exists posted",
  ]);
  assert.deepEqual(await results([post("fee", MERCHANT, FEES, 2n)]), ["exists_differently null"]);
  assert.deepEqual(await results([post("too much", MERCHANT, FEES, 1_000n)]), ["insufficient_funds null"]);
  assert.deepEqual(await results([hold("h2", MERCHANT, FLOAT, 20n)]), ["exists captured"]);
});

test("verify: goes on from the anchor, and finds what is changed there", async () => {
  const { problems, transfers } = await verify(pool);
  assert.deepEqual([problems, transfers], [[], 3n]);
  assert.deepEqual((await verify(pool, { resume: true })).problems, []);
  assert.deepEqual(await checkNew(pool), []);
  const last = "(select max(recorded_at) from entries where recorded_at < '2026-04-01')";
  for (const [change, back, finds] of [
    [
      "update batches set hash = sha256(hash) where sequence = 7",
      `update batches set hash = (select hash from archive_anchors) where sequence = 7`,
      /batch 7 of ast_xof\/live: it is no longer the batch that was verified before/,
    ],
    [
      `update entries set credits_posted = credits_posted + 50 where recorded_at = ${last} and credits_posted > 0`,
      `update entries set credits_posted = credits_posted - 50 where recorded_at = ${last} and credits_posted > 0`,
      /batch 8 of ast_xof\/live: transfer .*: its entry of merchant:acct_a:plt_a says credits_posted/,
    ],
  ] as const) {
    await admin.query("set session_replication_role = replica");
    await admin.query(change);
    const found = (await verify(pool)).problems.map(({ sentence }) => sentence);
    await admin.query(back);
    await admin.query("reset session_replication_role");
    assert.ok(
      found.some((sentence) => finds.test(sentence)),
      found.join("\n"),
    );
  }
  await assert.rejects(admin.query("update archive_anchors set sequence = 1"), /append-only/);
  await assert.rejects(admin.query("delete from entries_2026_03"), /append-only/);
  await assert.rejects(pool.query("insert into archive_removals values ('2026-03-01', 0, 0)"), { code: "42501" });
  await assert.rejects(pool.query("select from entries_2026_03"), { code: "42501" });
  assert.deepEqual((await verify(pool)).problems, []);
});

test("write: the next month begins with the balances with which the one before ended, and goes the same way", async () => {
  const april = done(await writeArchive(admin, APRIL, dir));
  await copyFile(april, join(dir, "copy.jsonl.gz"));
  done(await removeArchived(admin, APRIL, join(dir, "copy.jsonl.gz")));
  assert.deepEqual((await verify(pool)).problems, []);
  assert.deepEqual(
    ok(await books.listClearing({ assetId: undefined, book: Book.LIVE, limit: undefined })),
    whole.clearing,
  );
  done(await checkArchive(file, admin));
  assert.match((await writeArchive(admin, MARCH, dir)).sentence, /was taken away: its file is all there is/);
});

test("command: tells what was done or why not, as the owner of the tables; wrong usage is 2", async () => {
  const runOn = (DATABASE_URL: string, ...args: string[]) => {
    const env = { ...process.env, DATABASE_URL };
    const command = join(import.meta.dirname, "../../../tools/archive.ts");
    return new Promise<[code: unknown, text: string]>((settle) =>
      execFile(process.execPath, [command, ...args], { env }, (error, stdout, stderr) =>
        settle([error?.code ?? 0, `${stdout}${stderr}`]),
      ),
    );
  };
  const run = (...args: string[]) => runOn(database.admin_url, ...args);
  const checks = await Promise.all([run("check", file), run("check", file, "--alone")]);
  for (const [code, text] of checks) assert.deepEqual([code, /8 transfers, 16 entries/.test(text)], [0, true], text);
  const [code, text] = await run("write", "2026-05", "--to", dir);
  assert.deepEqual([code, text], [1, "nothing was recorded in 2026-05\n"]);
  assert.equal((await run("remove", "2026-05"))[0], 2);
  const readme = join(import.meta.dirname, "../README.md");
  const wrong = await Promise.all([
    run("check", join(dir, "none.jsonl.gz")),
    run("check", readme, "--alone"),
    run("write", "2026-05", "--into", dir),
    runOn("postgres://nobody@127.0.0.1:1/none", "write", "2026-05", "--to", dir),
  ]);
  assert.match(wrong[0][1], /none\.jsonl\.gz cannot be read: ENOENT/);
  assert.match(wrong[1][1], /README\.md cannot be read: /);
  assert.match(wrong[2][1], /'--into'[\s\S]*npm run archive -- write/);
  assert.match(wrong[3][1], /^It was cut off, and may be run again: .*ECONNREFUSED/);
  assert.deepEqual(
    wrong.map(([found, text]) => [found, /\n {4}at /.test(text)]),
    [1, 1, 2, 1].map((wanted) => [wanted, false]),
  );
});
