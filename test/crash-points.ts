// Points at which the house stands still: a trigger makes one write of one account wait, so that a process can be killed
// in exactly that phase. The only tests that reach into the database, for no door shows where a process is.

import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { eventually, handles } from "./house.ts";

/** The advisory lock on which the stopped write waits; any pair that nothing in the house uses. */
const LOCK = [7_215_004, 99] as const;

/** A write of a room: where its table is, and which row of it, as the condition of a trigger on `new` and `old`. */
export type CrashPoint = {
  readonly room: string;
  readonly table: string;
  readonly event: "insert" | "update";
  readonly when: string;
};

export type CrashPoints = {
  /** From now on the write waits; call `reached`, kill, then `release`. */
  stopAt(point: CrashPoint): Promise<void>;
  reached(): Promise<void>;
  /** Lets the write go on, or (lost) ends its connection as if it had never been sent. */
  release(lost: boolean): Promise<void>;
  /** References under which the operator was asked for money of an account, each as often as it was. */
  referencesOf(account: string): Promise<string[]>;
  close(): Promise<void>;
};

export async function openCrashPoints(): Promise<CrashPoints> {
  const db = new pg.Client({ connectionString: handles().database_url });
  await db.connect();
  await db.query(
    `create or replace function public.crash_point() returns trigger language plpgsql security definer as $$
     begin perform pg_catalog.pg_advisory_xact_lock(${LOCK.join(", ")}); return new; end $$`,
  );
  let armed: CrashPoint | null = null;
  const waiting = async () => {
    const text =
      "select pid from pg_locks where locktype = 'advisory' and not granted and classid = $1::int and objid = $2::int";
    return (await db.query<{ pid: number }>(text, [...LOCK])).rows.map(({ pid }) => pid);
  };
  return {
    async stopAt(point) {
      await db.query("select pg_advisory_lock($1::int, $2::int)", [...LOCK]);
      await db.query(
        `create trigger crash_point before ${point.event} on ${point.room}.${point.table}
           for each row when (${point.when}) execute function public.crash_point()`,
      );
      armed = point;
    },
    async reached() {
      await eventually("the write is reached", waiting, (pids) => pids.length > 0);
    },
    async release(lost) {
      if (armed === null) throw new Error("no crash point is armed");
      for (const pid of lost ? await waiting() : []) await db.query("select pg_terminate_backend($1)", [pid]);
      await db.query("select pg_advisory_unlock($1::int, $2::int)", [...LOCK]);
      await db.query(`drop trigger crash_point on ${armed.room}.${armed.table}`);
      armed = null;
      // A connection that was let go may still commit what its dead client had sent.
      await sleep(50);
    },
    async referencesOf(account) {
      const text = "select reference from rails.simulator_charges where account = $1 order by reference";
      return (await db.query<{ reference: string }>(text, [account])).rows.map(({ reference }) => reference);
    },
    close: () => db.end(),
  };
}
