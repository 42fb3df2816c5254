// The processes of the house, one line each: adding a room to `npm start`, the migrator and the tests is one line here.
// Which settings and addresses a room is given stands in the table of settings, by its readers.

import type { Reader } from "@cauri/rpc/settings-table";

export type Room = {
  readonly name: Reader;
  readonly entry: string;
  readonly migrations: string;
};

const service = (name: Reader): Room => ({
  name,
  entry: `services/${name}/src/main.ts`,
  migrations: `services/${name}/migrations`,
});

export const rooms: readonly Room[] = [
  service("accounts"),
  service("ledger"),
  service("rails"),
  service("collections"),
  service("webhooks"),
  // Started with the others, but the first to be stopped: nothing new may come in while they finish.
  { name: "gateway", entry: "gateway/src/main.ts", migrations: "gateway/migrations" },
];

/** `instant-payment` is `INSTANT_PAYMENT` in the names of settings. */
export function settingName(room: string): string {
  return room.toUpperCase().replaceAll("-", "_");
}
