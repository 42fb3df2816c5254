// A local nats-server with JetStream. No npm package carries it, so it is looked for in PATH and in the person's
// cache, else built by Go (which verifies it against Go's checksum database), else asked of the system's package manager.

import { execFile } from "node:child_process";
import { access, mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { type Leashed, startLeashed } from "./leash.ts";
import { freePort } from "./ports.ts";
import { Sentence } from "./sentence.ts";

const run = promisify(execFile);

/** The version that the house is tested with; an older one in PATH is taken from 2.10 on. */
const VERSION = "2.15.2";
const OLDEST = [2, 10] as const;
const MODULE = `github.com/nats-io/nats-server/v2@v${VERSION}`;
const DEFAULT_PORT = "4222";
const READY_WITHIN_MS = 20_000;
const USER = "cauri";

/** Package managers that carry nats-server, with the words that install it without a question. */
const MANAGERS: readonly (readonly string[])[] = [
  ["apt-get", "install", "-y", "--no-install-recommends", "nats-server"],
  ["apk", "add", "nats-server"],
  ["brew", "install", "nats-server"],
  ["pacman", "-S", "--noconfirm", "nats-server"],
];

type Say = (text: string) => void;

export type NatsOptions = {
  readonly bin: string;
  readonly store_dir: string;
  readonly log_file: string;
  readonly port?: number;
  /** Asked of every client: news of a payment are believed, so not everybody on the machine may send some. */
  readonly password?: string;
};

export type Nats = Leashed & { readonly url: string; readonly port: number };

/** Starts the server and waits until it takes connections. */
export async function startNats(options: NatsOptions): Promise<Nats> {
  const port = options.port ?? (await freePort());
  await mkdir(options.store_dir, { recursive: true, mode: 0o700 });
  const args = ["--addr", "127.0.0.1", "--port", String(port), "--jetstream", "--store_dir", options.store_dir];
  const { password, log_file } = options;
  if (password !== undefined) args.push("--config", await writeConfig(options.store_dir, password));
  // Of the person's variables only these: others may hold passwords that are no matter of this server. And one thread at a
  // time: for the handful of clients of one machine several would mostly wake each other, at a sixth more CPU.
  const env = { PATH: process.env["PATH"], HOME: homedir(), GOMAXPROCS: "1" };
  const server = await startLeashed(options.bin, args, { log_file, env });
  let gone: string | null = null;
  server.exited.then((how) => {
    gone = how;
  });
  const deadline = Date.now() + READY_WITHIN_MS;
  while (!(await greets(port))) {
    if (gone !== null) throw new Sentence(await startFailure(gone, options.log_file));
    if (Date.now() > deadline) {
      server.kill();
      throw new Sentence(`nats-server was not ready within ${READY_WITHIN_MS / 1000} s: see ${options.log_file}.`);
    }
    await sleep(10);
  }
  return { ...server, port, url: `nats://${password === undefined ? "" : `${USER}:${password}@`}127.0.0.1:${port}` };
}

/** A file, because arguments are shown to everybody on the machine. */
async function writeConfig(store_dir: string, password: string): Promise<string> {
  const path = join(store_dir, "server.conf");
  await writeFile(path, `authorization { user: "${USER}", password: "${password}" }\n`, { mode: 0o600 });
  return path;
}

/** The path of a usable nats-server; gets one when there is none, which may take a minute the first time. */
export async function findNats(say: Say, stopping?: AbortSignal): Promise<string> {
  const found = (await inPath("nats-server")) ?? cached();
  if (await isUsable(found)) return found;
  if (await isUsable(cached())) return cached();
  const failures: string[] = [];
  for (const way of [buildWithGo, installWithManager]) {
    try {
      const path = await way(say, stopping);
      if (path === null) continue;
      if (await isUsable(path)) return path;
      failures.push(`${path} is too old.`);
    } catch (error) {
      stopping?.throwIfAborted();
      failures.push(error instanceof Error ? error.message : String(error));
    }
  }
  throw new Sentence(
    [
      `No nats-server ${OLDEST.join(".")} or newer was found in PATH, and there is no way to get one here.`,
      "Install nats-server or Go and try again, or set NATS_URL to a running server with JetStream.",
      ...failures,
    ].join("\n"),
  );
}

function cached(): string {
  const base = process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache");
  return join(base, "cauri", `nats-server-${VERSION}`, "nats-server");
}

/** Throws a sentence unless one server of `NATS_URL` answers. */
export async function requireNats(nats_url: string): Promise<void> {
  for (const text of nats_url.split(",")) {
    const url = URL.parse(text.includes("://") ? text : `nats://${text}`);
    if (url !== null && (await greets(Number(url.port || DEFAULT_PORT), url.hostname))) return;
  }
  throw new Sentence("The server of NATS_URL does not answer: start it, or unset NATS_URL to have one started.");
}

async function buildWithGo(say: Say, stopping?: AbortSignal): Promise<string | null> {
  const go = (await inPath("go")) ?? (await existing("/usr/local/go/bin/go"));
  if (go === null) return null;
  say(`building nats-server ${VERSION} with Go, once; this takes about a minute`);
  const target = cached();
  const folder = join(target, "..");
  await mkdir(join(folder, ".."), { recursive: true });
  // Built beside its place and moved there whole, so that an interrupted build leaves nothing that looks usable.
  const fresh = await mkdtemp(`${folder}.`);
  try {
    const env = { ...process.env, GOBIN: fresh, CGO_ENABLED: "0" };
    await run(go, ["install", MODULE], { env, maxBuffer: 16 << 20, ...(stopping && { signal: stopping }) });
    await rename(fresh, folder).catch(async (error: unknown) => {
      // Two houses may have built at once; the first one's is as good.
      if (!(await isUsable(target))) throw error;
    });
    return target;
  } catch (error) {
    throw new Error(`Go could not build it: ${lastLines(error)}`);
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
}

async function installWithManager(say: Say): Promise<string | null> {
  for (const [name = "", ...args] of MANAGERS) {
    const manager = await inPath(name);
    if (manager === null) continue;
    // Only root may install for the whole machine; brew alone insists on the contrary.
    if (name !== "brew" && process.getuid?.() !== 0) {
      throw new Error(`As root, "${name} ${args.join(" ")}" may install it.`);
    }
    say(`installing nats-server with ${name}`);
    try {
      await run(manager, args, { maxBuffer: 16 << 20 });
    } catch (error) {
      throw new Error(`${name} could not install it: ${lastLines(error)}`);
    }
    return inPath("nats-server");
  }
  return null;
}

async function isUsable(path: string): Promise<boolean> {
  try {
    const { stdout } = await run(path, ["--version"]);
    const [major = 0, minor = 0] = (/v(\d+)\.(\d+)/.exec(stdout) ?? []).slice(1).map(Number);
    return major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1]);
  } catch {
    return false;
  }
}

async function inPath(name: string): Promise<string | null> {
  for (const folder of (process.env["PATH"] ?? "").split(delimiter)) {
    const path = folder === "" ? null : await existing(join(folder, name));
    if (path !== null) return path;
  }
  return null;
}

async function existing(path: string): Promise<string | null> {
  return access(path).then(
    () => path,
    () => null,
  );
}

/** A nats-server greets each connection with INFO before anything is asked. */
function greets(port: number, host = "127.0.0.1"): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host });
    const settle = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.once("data", (data) => settle(data.toString("latin1").startsWith("INFO")));
    socket.once("error", () => settle(false));
    socket.setTimeout(1_000, () => settle(false));
  });
}

async function startFailure(how: string, log_file: string): Promise<string> {
  const log = await readFile(log_file, "utf8").catch(() => "");
  const tail = log.trim().split("\n").slice(-4).join("\n");
  return `nats-server did not start (${how}); the end of ${log_file}:\n${tail}`;
}

function lastLines(error: unknown): string {
  const text = error instanceof Error && "stderr" in error ? String(error.stderr) : String(error);
  return text.trim().split("\n").slice(-3).join("\n");
}
