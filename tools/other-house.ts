// A server that a person gives (DATABASE_URL, NATS_URL) serves one house at a time: roles and their passwords belong to
// the whole PostgreSQL server, and consumers by one name share their events. A second house would take both from the first.

import { setTimeout as sleep } from "node:timers/promises";
import { openEvents } from "@cauri/events/events";
import { STREAM } from "@cauri/events/stream";
import { logger } from "@cauri/rpc/log";
import pg from "pg";
import { rooms, schemaName } from "./rooms.ts";
import { Sentence } from "./sentence.ts";

/** Sessions of a house that was killed a moment ago are gone within this time. */
const FORMER_SESSIONS_MS = 3_000;
const ASK_EVERY_MS = 200;

/** Throws a sentence when services of another house are logged in, whichever database of the server they use. */
export async function requireOwnDatabaseServer(url: string): Promise<void> {
  const roles = rooms.map(({ name }) => `cauri_${schemaName(name)}`);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await awaitNobody(async () => {
      const { rows } = await client.query<{ datname: string }>(
        "select datname from pg_stat_activity where usename = any($1) and datname is not null limit 1",
        [roles],
      );
      return rows[0] === undefined ? null : `The server of DATABASE_URL (its database ${rows[0].datname})`;
    });
  } finally {
    await client.end();
  }
}

/** Throws a sentence when services of another house wait for events there. */
export async function requireOwnNats(nats_url: string): Promise<void> {
  const events = await openEvents({ nats_url, room: "tools", log: logger("tools", "error") });
  try {
    await awaitNobody(async () => {
      for await (const { num_waiting } of events.jsm.consumers.list(STREAM)) {
        if (num_waiting > 0) return "The server of NATS_URL";
      }
      return null;
    });
  } finally {
    await events.close();
  }
}

async function awaitNobody(whereSomebodyIs: () => Promise<string | null>): Promise<void> {
  const deadline = Date.now() + FORMER_SESSIONS_MS;
  for (let place = await whereSomebodyIs(); place !== null; place = await whereSomebodyIs()) {
    if (Date.now() > deadline) {
      throw new Sentence(`${place} serves another running house: stop that one, or give this one its own server.`);
    }
    await sleep(ASK_EVERY_MS);
  }
}
