// The migrator: brings every room's schema up to date, as the administrator of DATABASE_URL. In production it runs
// before a roll-out (`node tools/migrate.ts`, which takes each role's password from CAURI_<ROOM>_DATABASE_URL);
// `npm start` calls it. Services never migrate.

import { dirname, join } from "node:path";
import { EditedMigration, migrateRoom } from "@cauri/store/migrate";
import { rooms, schemaName, settingName } from "./rooms.ts";
import { runCommand, Sentence } from "./sentence.ts";

const root = dirname(import.meta.dirname);

/** One room after the other: their grants touch the same catalog rows. */
export async function migrateAll(
  admin_url: string,
  passwords: Readonly<Record<string, string | undefined>>,
): Promise<void> {
  for (const { name, migrations, operations } of rooms) {
    const password = passwords[name];
    await migrateRoom({
      admin_url,
      room: schemaName(name),
      dirs: [join(root, migrations)],
      shared: operations,
      ...(password === undefined ? {} : { password }),
    }).catch((error: unknown) => {
      if (!(error instanceof EditedMigration)) throw error;
      throw new Sentence(`${error.message}. Data of a test run are forgotten by npm run reset.`);
    });
  }
}

async function main(): Promise<number> {
  const admin_url = process.env["DATABASE_URL"];
  if (!admin_url) throw new Sentence("DATABASE_URL is not set: it must be an administrator's PostgreSQL URL.");
  const passwords = rooms.map(({ name }) => {
    const url = process.env[`CAURI_${settingName(name)}_DATABASE_URL`];
    return [name, url ? decodeURIComponent(new URL(url).password) : undefined] as const;
  });
  await migrateAll(admin_url, Object.fromEntries(passwords));
  console.log(`migrated ${rooms.map(({ name }) => name).join(", ")}`);
  return 0;
}

if (import.meta.main) await runCommand(main);
