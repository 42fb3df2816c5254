// `npm run archive -- write|check|remove …`: finds the database, as the administrator of DATABASE_URL or of the local house,
// and hands over to the ledger.

import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { runCommand } from "./sentence.ts";

type Archive = (args: readonly string[], findUrl: (data: string) => string | null) => Promise<number>;

// By path and at run time: nothing imports a service.
const COMMAND = join(dirname(import.meta.dirname), "services/ledger/src/archive-command.ts");

function findUrl(data: string): string | null {
  if (process.env["DATABASE_URL"]) return process.env["DATABASE_URL"];
  try {
    const local = JSON.parse(readFileSync(join(data, "local.json"), "utf8")) as { database_url?: string };
    return local.database_url ?? null;
  } catch {
    return null;
  }
}

await runCommand(async () => {
  const { archive } = (await import(COMMAND)) as { archive: Archive };
  return await archive(process.argv.slice(2), findUrl);
});
