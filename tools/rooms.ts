// The processes of the house, one line each: adding a room to `npm start`, the migrator and the tests is one line here.
// Which settings and addresses a room is given stands in the table of settings, by its readers.

import type { Reader } from "@cauri/rpc/settings-table";

export type Room = {
  readonly name: Reader;
  readonly entry: string;
  readonly migrations: string;
  /** Whether it has operations, and so the tables that all rooms with operations share. */
  readonly operations: boolean;
};

const service = (name: Reader): Room => ({
  name,
  entry: `services/${name}/src/main.ts`,
  migrations: `services/${name}/migrations`,
  operations: true,
});

export const rooms: readonly Room[] = [
  service("accounts"),
  service("ledger"),
  service("rails"),
  service("collections"),
  service("payouts"),
  service("webhooks"),
  // Started with the others, but the first to be stopped: nothing new may come in while they finish.
  { name: "gateway", entry: "gateway/src/main.ts", migrations: "gateway/migrations", operations: false },
];

/** `instant-payment` is `instant_payment` in the database. */
export function schemaName(room: string): string {
  return room.replaceAll("-", "_");
}

/** `instant-payment` is `INSTANT_PAYMENT` in the names of settings. */
export function settingName(room: string): string {
  return schemaName(room).toUpperCase();
}
