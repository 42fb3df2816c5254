// Where the time of a measured load went: the statements of each room as PostgreSQL counted them, and what each process
// did with its CPU, from the profiles that Node leaves (CAURI_PROFILE).

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";

/** Lines per table: what is not among the first is not worth a change. */
const TOP = 14;

type Statement = { room: string; calls: string; ms: string; planned: string; rows: string; wal: string; query: string };

/** PostgreSQL does so by itself within a minute of such a load; until then its plans are those of empty tables. */
export async function analyse(url: string): Promise<void> {
  await withClient(url, async (client) => void (await client.query("analyze")));
}

/** Begins to count anew; `url` is the superuser's. */
export async function resetStatements(url: string): Promise<void> {
  await withClient(url, async (client) => {
    await client.query("create extension if not exists pg_stat_statements");
    await client.query("select pg_stat_statements_reset()");
  });
}

/** Statements by room, for one unit of the load each: how often, how long, how much WAL. */
export async function printStatements(url: string, units: number): Promise<void> {
  await withClient(url, async (client) => {
    const { rows } = await client.query<Statement>(
      `select r.rolname as room, (s.calls / $1::float8)::numeric(10,2) as calls,
              (s.total_exec_time / $1)::numeric(10,3) as ms, (s.total_plan_time / $1)::numeric(10,3) as planned, (s.rows / $1::float8)::numeric(10,2) as rows,
              (s.wal_bytes / $1)::numeric(10,0) as wal,
              left(regexp_replace(s.query, '\\s+', ' ', 'g'), 110) as query
         from pg_stat_statements s join pg_roles r on r.oid = s.userid
        where r.rolname like 'cauri%' order by s.total_exec_time desc limit 40`,
      [units],
    );
    const total = await client.query<Statement>(
      `select r.rolname as room, (sum(s.calls) / $1::float8)::numeric(10,2) as calls,
              (sum(s.total_exec_time) / $1)::numeric(10,3) as ms, (sum(s.total_plan_time) / $1)::numeric(10,3) as planned, (sum(s.wal_bytes) / $1)::numeric(10,0) as wal,
              'all of the room' as query, 0 as rows
         from pg_stat_statements s join pg_roles r on r.oid = s.userid
        where r.rolname like 'cauri%' group by r.rolname order by r.rolname`,
      [units],
    );
    console.log("sql      room              calls       ms  planned  WAL bytes");
    for (const { room, calls, ms, planned, wal, query } of [...total.rows, ...rows]) {
      console.log(
        `sql      ${room.padEnd(16)} ${calls.padStart(6)} ${ms.padStart(8)} ${planned.padStart(8)} ${wal.padStart(8)}   ${query}`,
      );
    }
  });
}

type Profile = {
  readonly nodes: readonly { readonly id: number; readonly callFrame: { functionName: string; url: string } }[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
};

/** What each process did by itself, in percent of its time at work, by function. */
export function printProfiles(folder: string): void {
  if (!existsSync(folder)) return;
  for (const file of readdirSync(folder).filter((name) => name.endsWith(".cpuprofile"))) {
    const profile = JSON.parse(readFileSync(join(folder, file), "utf8")) as Profile;
    const names = new Map(profile.nodes.map(({ id, callFrame }) => [id, nameOf(callFrame)]));
    const spent = new Map<string, number>();
    let busy = 0;
    for (const [at, id] of profile.samples.entries()) {
      const name = names.get(id) ?? "";
      const us = profile.timeDeltas[at] ?? 0;
      if (name.startsWith("(idle)") || name.startsWith("(program)")) continue;
      busy += us;
      spent.set(name, (spent.get(name) ?? 0) + us);
    }
    console.log(`profile  ${file.replace(".cpuprofile", "")}: ${(busy / 1e6).toFixed(1)} s at work`);
    const first = [...spent].sort(([, a], [, b]) => b - a).slice(0, TOP);
    for (const [name, us] of first) console.log(`profile    ${((us / busy) * 100).toFixed(1).padStart(5)} %  ${name}`);
  }
}

function nameOf({ functionName, url }: { functionName: string; url: string }): string {
  const place = url.replace(/^.*\/node_modules\//, "").replace(/^file:\/\/.*?\/(packages|services|gateway)\//, "$1/");
  return `${functionName || "(anonymous)"} ${place}`;
}

async function withClient(url: string, work: (client: pg.Client) => Promise<void>): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}
