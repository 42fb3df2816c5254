// The vault: nothing of a payer stands in the database in clear, and what nobody came to need is erased.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { systemClock } from "@cauri/money/clock";
import { type Cipher, openCipher } from "@cauri/store/cipher";
import { transact } from "@cauri/store/pool";
import pg from "pg";
import { collect } from "./collect.ts";
import { type Payer, readPayer, writePayer } from "./payer.ts";
import { openRails, orderOf, type Process, type TestRails, until } from "./testing.ts";
import { copyInVault, eraseTransient, keepInVault, openVault } from "./vault-store.ts";

let rails: TestRails;
let room: Process;

before(async () => {
  rails = await openRails();
  room = rails.open();
});
after(() => rails.close());

const payer = { phone: "+2250707070700", name: "Awa Koné-Fofana", email: "awa.kone@exemple.ci" };

const keep = (order: ReturnType<typeof orderOf>, details: Payer = payer) =>
  transact(rails.pool, (tx) =>
    keepInVault(tx, room.house.cipher, order, { plain: writePayer(details), retention: "transient" }),
  );

async function opened(cipher: Cipher, { operation_id }: { operation_id: string }) {
  return readPayer((await openVault(rails.pool, cipher, operation_id)) ?? Buffer.from("[]"));
}

/** Every row of every table of the schema as text, bytes included. */
async function dump(): Promise<string> {
  const admin = new pg.Client({ connectionString: rails.admin_url });
  await admin.connect();
  try {
    const { rows: tables } = await admin.query("select tablename from pg_tables where schemaname = 'rails'");
    const texts: string[] = [];
    for (const { tablename } of tables) {
      const { rows } = await admin.query(`select t::text as row from rails.${tablename} t`);
      texts.push(...rows.map(({ row }) => `${tablename} ${row}`));
    }
    return texts.join("\n");
  } finally {
    await admin.end();
  }
}

test("vault: a payment from its payer to its callback leaves nothing raw in any table", async () => {
  const order = orderOf({ rails: ["wave"] });
  await keep(order);
  await collect(room.house, order, systemClock() + 60_000);
  await until("the callback", async () => {
    await room.simulator.deliverDue(order.account);
    const { rows } = await rails.pool.query("select 1 from callbacks where reference = $1 and matched_at is not null", [
      order.reference,
    ]);
    return rows.length === 1;
  });
  const everything = await dump();
  assert.ok(everything.includes(order.operation_id) && everything.includes("simulator_charges"), "the dump is one");
  const hex = (text: string) => Buffer.from(text, "utf8").toString("hex");
  for (const secret of [payer.phone, payer.phone.slice(4), "Koné", "Fofana", "awa.kone", "exemple.ci"]) {
    assert.ok(!everything.includes(secret), `${secret} stands in clear`);
    assert.ok(!everything.includes(hex(secret)), `${secret} stands in clear bytes`);
  }
});

test("keep_payer: the same again changes nothing, another payer under the same id is a bug", async () => {
  const order = orderOf();
  await Promise.all(Array.from({ length: 8 }, () => keep(order)));
  assert.deepEqual(await opened(room.house.cipher, order), payer);
  await assert.rejects(keep(order, { ...payer, phone: "+2250707070701" }), { name: "AssertionError" });
  await assert.rejects(keep({ ...order, account: "acct_other" }), { name: "AssertionError" });
});

test("vault: a sealed row opens nowhere but in its place, and with a changed first key", async () => {
  const [one, other] = [orderOf(), orderOf()];
  await keep(one);
  await keep(other, { phone: "+2250101010101" });
  const next = openCipher(`k2:${Buffer.alloc(32, 9).toString("base64")},k1:${Buffer.alloc(32, 7).toString("base64")}`);
  assert.deepEqual(await opened(next, one), payer);
  const { rows } = await rails.pool.query("select key_id from vault where operation_id = $1", [one.operation_id]);
  assert.deepEqual(rows, [{ key_id: "k1" }]);
  await rails.pool.query(
    "update vault set sealed = (select sealed from vault where operation_id = $2) where operation_id = $1",
    [one.operation_id, other.operation_id],
  );
  await assert.rejects(openVault(rails.pool, next, one.operation_id));
});

test("vault: transient details are erased after 24 h unless an attempt names them", async () => {
  const [needed, young, old] = [orderOf(), orderOf(), orderOf()];
  for (const order of [needed, young, old]) await keep(order);
  await collect(room.house, needed, systemClock() + 60_000);
  await rails.pool.query("update vault set kept_at = now() - interval '25 hours' where operation_id = any($1)", [
    [needed.operation_id, old.operation_id],
  ]);
  assert.equal((await eraseTransient(rails.pool)).erased, 1);
  const { rows } = await rails.pool.query("select operation_id from vault where operation_id = any($1)", [
    [needed.operation_id, young.operation_id, old.operation_id],
  ]);
  assert.deepEqual(
    rows.map(({ operation_id }) => operation_id).sort(),
    [needed.operation_id, young.operation_id].sort(),
  );
});

test("vault: the eraser looks at what comes of age once, and at nothing while another process looks", async () => {
  await eraseTransient(rails.pool);
  const [needed, unneeded] = [orderOf(), orderOf()];
  for (const order of [needed, unneeded]) await keep(order);
  await collect(room.house, needed, systemClock() + 60_000);
  // Kept in the same microsecond, of which a limit of one row cuts one off.
  await rails.pool.query(
    "update vault set kept_at = date_trunc('hour', now()) - interval '24 hours' where operation_id = any($1)",
    [[needed.operation_id, unneeded.operation_id]],
  );
  await transact(rails.pool, async (tx) => {
    await tx.query("select until from vault_looked for update");
    assert.deepEqual(await eraseTransient(rails.pool), { erased: 0, looked_at: 0 });
  });
  assert.deepEqual(await eraseTransient(rails.pool, 1), { erased: 1, looked_at: 1 });
  assert.deepEqual(await eraseTransient(rails.pool), { erased: 0, looked_at: 0 });
  assert.deepEqual(await opened(room.house.cipher, needed), payer);
});

test("vault: a copy that is made again is as young as its last making: it is about to be sent", async () => {
  const settlement = orderOf();
  const withdrawal = orderOf({ account: settlement.account });
  await keep(settlement);
  const copy = () => copyInVault(rails.pool, room.house.cipher, settlement.operation_id, withdrawal);
  await copy();
  await rails.pool.query("update vault set kept_at = now() - interval '25 hours' where operation_id = $1", [
    withdrawal.operation_id,
  ]);
  await copy();
  await eraseTransient(rails.pool);
  assert.deepEqual(await opened(room.house.cipher, withdrawal), payer);
});
