// The proof: random histories on real PostgreSQL, answer for answer those of the plain model, and books that add up.
// CAURI_HISTORIES says how many, CAURI_SEED which ones; `npm run prove` runs as many as one likes.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, test } from "node:test";
import { testDatabase } from "@cauri/store/testing";
import fc from "fast-check";
import { startEngine } from "./engine.ts";
import { type Bench, openHistories, runHistory } from "./histories-testing.ts";
import { histories } from "./testing.ts";
import { verify } from "./verify.ts";

const HISTORIES = Number(process.env["CAURI_HISTORIES"] ?? "2000");
const SEED = process.env["CAURI_SEED"];
/** Side by side in lanes of their own: enough to keep the database busy while each waits for its answers. */
const AT_ONCE = 50;

const database = await testDatabase("ledger", [join(import.meta.dirname, "../migrations")], { max: 16 });
const { pool } = database;
const bench: Bench = { pool, engines: [startEngine({ pool }), startEngine({ pool })] };
after(() => database.close());

test(`histories: ${HISTORIES} of them are answered as the plain model answers them`, {
  timeout: 3_600_000,
}, async () => {
  let run = 0;
  const history = histories({ words: 10, steps: 8, start_ms: 0 });
  await fc.assert(
    fc.asyncProperty(fc.array(history, { minLength: AT_ONCE, maxLength: AT_ONCE }), async (many) => {
      const named = many.map((steps) => {
        run += 1;
        return { name: `${run}`, steps };
      });
      const started = await openHistories(pool, named);
      await Promise.all(started.map((one) => runHistory(bench, one)));
    }),
    {
      numRuns: Math.ceil(HISTORIES / AT_ONCE),
      // A failure is shrunk by hand from its seed: smaller histories have other times, which are half of the matter.
      endOnFailure: true,
      ...(SEED === undefined ? {} : { seed: Number(SEED) }),
    },
  );
  for (const engine of bench.engines) while (await engine.sweep());
  assert.deepEqual((await verify(pool)).problems, []);
});
