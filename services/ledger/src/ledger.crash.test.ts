// Two replicas of the ledger and their PostgreSQL, killed in turn while callers post to both on the same accounts. Every
// caller repeats a transfer until it is answered: none may be missing then, none booked twice, and the chain must hold.
// CAURI_KILLS sets how many kills (6 unless given).

import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { randomInt, randomUUID } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { isRefusal } from "@cauri/money/refusal";
import { Book, LedgerServiceClient, TransferKind, TransferResult } from "@cauri/proto/ts/cauri/ledger/v1/ledger";
import { connectClient } from "@cauri/rpc/client";
import { migrateRoom, roomUrl } from "@cauri/store/migrate";
import { openPool } from "@cauri/store/pool";
import { openAccounts, readAccounts } from "./account-store.ts";
import { carryBalances } from "./carry-store.ts";
import { verify } from "./verify.ts";

const KILLS = Number(process.env["CAURI_KILLS"] ?? "6");
const CALLERS = 16;
const ACCOUNTS = 8;
/** Long enough for batches of both kinds between two kills. */
const BETWEEN_KILLS_MS = 700;
const TOKEN = "a token for two replicas in a test of an hour at most";
const FLOAT = "float:plt_a";
const codes = Array.from({ length: ACCOUNTS }, (_, index) => `merchant:acct_${index}:plt_a`);

type Server = {
  readonly url: string;
  readonly port: number;
  kill(): void;
  stop(): Promise<unknown>;
  exited: Promise<unknown>;
};
type Start = { home: string; password: string; log_file: string; port?: number };
type Tools = {
  startPostgres(options: Start): Promise<Server>;
  freePort(): Promise<number>;
  makeTestFolder(): string;
  removeTestFolder(path: string): void;
};

// By path and at run time: services import no tools, and only tests need these.
const tools = join(import.meta.dirname, "../../../tools");
const { startPostgres } = (await import(join(tools, "postgres.ts"))) as Tools;
const { makeTestFolder, removeTestFolder } = (await import(join(tools, "test-folder.ts"))) as Tools;
const { freePort } = (await import(join(tools, "ports.ts"))) as Tools;

const home = makeTestFolder();
const place = { home: join(home, "postgres"), password: "crash", log_file: join(home, "postgres.log") };
let server = await startPostgres(place);
await migrateRoom({
  admin_url: server.url,
  room: "ledger",
  dirs: [join(import.meta.dirname, "../migrations")],
  password: "crash",
});
const url = roomUrl(server.url, "ledger", "crash");
const ports = [await freePort(), await freePort()];
const replicas: ChildProcess[] = await Promise.all(ports.map(startReplica));
const clients = ports.map((port) => connectClient(LedgerServiceClient, { address: `127.0.0.1:${port}`, token: TOKEN }));
after(async () => {
  for (const client of clients) client.closeChannel();
  for (const replica of replicas) replica.kill("SIGKILL");
  await server.stop();
  removeTestFolder(home);
});

test(`crash: ${KILLS} kills under load lose no acknowledged transfer and double none`, {
  timeout: 1_800_000,
}, async () => {
  const pool = openPool({ url, name: "crash test" });
  await openAccounts(
    pool,
    [FLOAT, ...codes].map((code) => ({ code, asset_id: "ast_xof", book: "live" as const })),
  );
  const acknowledged = new Map<string, string>();
  let over = false;
  const callers = Array.from({ length: CALLERS }, async () => {
    while (!over) {
      const credit_code = codes[randomInt(ACCOUNTS)] ?? "";
      acknowledged.set(await postUntilAnswered(credit_code), credit_code);
    }
  });
  for (let kill = 0; kill < KILLS; kill += 1) {
    await sleep(BETWEEN_KILLS_MS);
    const before = acknowledged.size;
    if (kill % 3 === 2) {
      server.kill();
      await server.exited;
      server = await startPostgres({ ...place, port: server.port });
    } else await killReplica(kill % 3);
    while (acknowledged.size < before + CALLERS) await sleep(20);
  }
  over = true;
  await Promise.all(callers);
  await compare(pool, acknowledged);
  await pool.end();
});

async function compare(pool: ReturnType<typeof openPool>, acknowledged: ReadonlyMap<string, string>): Promise<void> {
  const { rows } = await pool.query<{ id: string; code: string }>(
    "select transfer_id as id, code from transfers join accounts on account_id = credit_id",
  );
  const booked = new Map(rows.map((row) => [row.id, row.code]));
  assert.equal(booked.size, rows.length);
  const missing = [...acknowledged].filter(([id, code]) => booked.get(id) !== code);
  assert.deepEqual(missing, [], "acknowledged and not in the books");
  // Every caller ended with an answer, so nothing else may be there either.
  assert.equal(booked.size, acknowledged.size);
  const names = [FLOAT, ...codes].map((code) => ({ code, asset_id: "ast_xof", book: "live" as const }));
  for (const account of await readAccounts(pool, names)) {
    const wanted = [...acknowledged.values()].filter((code) => code === account.code).length;
    if (account.code === FLOAT) assert.equal(account.debits_posted, BigInt(acknowledged.size));
    else assert.equal(account.credits_posted, BigInt(wanted), account.code);
  }
  assert.deepEqual((await verify(pool)).problems, []);
  // Now from the accounts' rows: whoever was killed while it carried left them somewhere on the way.
  while (await carryBalances(pool));
  assert.deepEqual((await verify(pool)).problems, []);
  console.log(`${acknowledged.size} transfers acknowledged over ${KILLS} kills, all booked once`);
}

/** Posts under one id to either replica, again and again until one of them says that it stands. */
async function postUntilAnswered(creditCode: string): Promise<string> {
  const id = randomUUID();
  const transfer = { id, kind: TransferKind.POST, debitCode: FLOAT, creditCode, amountMinor: 1n, holdId: "" };
  const group = {
    ...{ book: Book.LIVE, assetId: "ast_xof", operationId: "pay_crash" },
    transfers: [{ ...transfer, expiresAt: undefined, effectiveAt: undefined }],
  };
  for (;;) {
    try {
      const response = await clients[randomInt(2)]?.post({ groups: [group] }, { timeout_ms: 5_000 });
      assert.ok(response !== undefined && !isRefusal(response), JSON.stringify(response));
      const result = response.groups[0]?.transfers[0]?.result;
      assert.ok(result === TransferResult.OK || result === TransferResult.EXISTS, `${result}`);
      return id;
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
      await sleep(20);
    }
  }
}

async function killReplica(index: number): Promise<void> {
  const replica = replicas[index];
  const gone = replica === undefined ? null : once(replica, "exit");
  replica?.kill("SIGKILL");
  await gone;
  replicas[index] = await startReplica(ports[index] ?? 0);
}

async function startReplica(port: number): Promise<ChildProcess> {
  const env = {
    ...{ PATH: process.env["PATH"], CAURI_LEDGER_DATABASE_URL: url, CAURI_RPC_TOKEN: TOKEN },
    ...{ CAURI_RPC_PORT: String(port), CAURI_METRICS_PORT: "0" },
    // Every room is told where it is; the ledger has no events and never connects.
    NATS_URL: "nats://127.0.0.1:4222",
  };
  const replica = fork(join(import.meta.dirname, "main.ts"), { env, stdio: ["ignore", "ignore", "inherit", "ipc"] });
  await once(replica, "message");
  return replica;
}
