// `npm run archive -- write|check|remove …`: months of the books that are over, as files. Run by an operator with the rights
// of the migrator, because the service itself must not be able to take anything away.

import { parseArgs } from "node:util";
import { isUnavailable, openPool, type Pool } from "@cauri/store/pool";
import { checkArchive, removeArchived, type Told, writeArchive } from "./archive.ts";

const USAGE = `npm run archive -- write 2026-03 --to FOLDER     write a month that is over to a file, and prove the file
npm run archive -- check FILE [--alone]          prove a file, and that the books say the same (--alone: without a database)
npm run archive -- remove 2026-03 --file FILE    take its entries and batches away, once the file is proved again
The database is DATABASE_URL, else that of the house in --data (.cauri).
`;
/** Of PostgreSQL (five characters), or of the operating system. */
const OF_THE_SYSTEM = /^(?:[0-9A-Z]{5}|E[A-Z]+)$/;
const MONTH = /^\d{4}-(0[1-9]|1[0-2])$/;

/** Returns the exit code. `findUrl` names the database, given the folder of a local house; null where there is none. */
export async function archive(args: readonly string[], findUrl: (data: string) => string | null): Promise<number> {
  const parsed = parsedOf(args);
  if (typeof parsed === "string") {
    process.stderr.write(`${parsed}\n${USAGE}`);
    return 2;
  }
  const { values, positionals } = parsed;
  const [word = "", name = ""] = positionals;
  const month = MONTH.test(name) ? `${name}-01` : null;
  const { to, file, alone, data } = values;
  const work = workOf(word, name, month, to, file);
  if (work === null) {
    process.stderr.write(USAGE);
    return 2;
  }
  if (word === "check" && alone) return tell(await checkArchive(name, null));
  const url = findUrl(data);
  if (url !== null) return tell(await withPool(url, work).catch(asTold));
  process.stderr.write(`Neither DATABASE_URL is set nor is a house running in ${data}.\n`);
  return 2;
}

/** What was asked for, or the sentence of what is no option. */
function parsedOf(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        to: { type: "string" },
        file: { type: "string" },
        alone: { type: "boolean", default: false },
        data: { type: "string", default: ".cauri" },
      },
      allowPositionals: true,
    });
  } catch (error) {
    if (error instanceof Error && "code" in error && /^ERR_PARSE_ARGS/.test(String(error.code))) return error.message;
    throw error;
  }
}

/** What the database or the system says by a code of theirs (no connection, no right, no such folder) needs no stack to be understood. */
function asTold(error: unknown): Told {
  if (!(error instanceof Error)) throw error;
  const code = "code" in error ? String(error.code) : "";
  if (!isUnavailable(error) && !OF_THE_SYSTEM.test(code)) throw error;
  return { done: false, sentence: `It was cut off, and may be run again: ${error.message}` };
}

type Work = (pool: Pool) => Promise<Told>;

function workOf(
  word: string,
  name: string,
  month: string | null,
  to: string | undefined,
  file: string | undefined,
): Work | null {
  if (word === "write" && month !== null && to !== undefined) return (pool) => writeArchive(pool, month, to);
  if (word === "remove" && month !== null && file !== undefined) return (pool) => removeArchived(pool, month, file);
  if (word === "check" && name !== "") return (pool) => checkArchive(name, pool);
  return null;
}

/** One connection, as the owner of the ledger's tables. */
async function withPool(url: string, work: Work): Promise<Told> {
  // As part of the connection, because a pool may open another one at any time.
  const owned = new URL(url);
  owned.searchParams.set("options", "-c role=cauri_ledger_owner -c search_path=ledger");
  // URLSearchParams writes a space as `+`, which the driver takes for a plus.
  const pool = openPool({ url: owned.toString().replaceAll("+", "%20"), name: "ledger archive", max: 1 });
  try {
    return await work(pool);
  } finally {
    await pool.end();
  }
}

function tell({ done, sentence }: Told): number {
  (done ? process.stdout : process.stderr).write(`${sentence}\n`);
  return done ? 0 : 1;
}
