// The data folder of a local house: who holds it, its secrets, and `local.json`, by which tests, scripts and the
// command line find the running house. Every file is replaced whole, so that no reader sees half of one.

import { randomBytes } from "node:crypto";
import { chmod, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { forgetPostgres } from "./postgres.ts";
import { startOf } from "./processes.ts";
import { rooms } from "./rooms.ts";
import { Sentence } from "./sentence.ts";

/** Longer than a house needs to stop by itself once its supervisor is gone. */
const FORMER_HOUSE_MS = 15_000;

/** Not ours to write, or no folder at all. */
const UNUSABLE: readonly string[] = ["EACCES", "EPERM", "ENOTDIR", "EEXIST"];

export type Processes = Readonly<Record<string, number>>;

/** Kept for as long as the data is: without them the data cannot be read. */
export type Secrets = {
  readonly postgres_password: string;
  readonly nats_password: string;
  readonly rpc_token: string;
  readonly operator_token: string;
  readonly key_pepper: string;
  readonly fingerprint_key: string;
  readonly vault_keys: string;
  readonly sim_secret: string;
  /** Passwords of the rooms' database roles. */
  readonly room_passwords: Readonly<Record<string, string>>;
  readonly demo?: Demo;
};

/** The demo account, whose keys the house itself could not show a second time. */
export type Demo = { readonly account_id: string; readonly test_key: string; readonly live_key: string };

export type LocalJson = {
  readonly base_url: string;
  readonly grpc_url: string;
  readonly admin_url: string;
  readonly operator_token: string;
  readonly database_url: string;
  readonly nats_url: string;
  readonly account_id: string | null;
  readonly test_key: string | null;
  readonly live_key: string | null;
  readonly processes: Processes;
};

type Started = { readonly pid: number; readonly started: string };
type Holder = Started & { readonly processes: Readonly<Record<string, Started>> };

export const localFile = (data: string) => join(data, "local.json");
export const postgresFolder = (data: string) => join(data, "postgres");
export const natsFolder = (data: string) => join(data, "nats");
export const logFile = (data: string, name: string) => join(data, "logs", `${name}.log`);
const holderFile = (data: string) => join(data, "supervisor.json");
const secretsFile = (data: string) => join(data, "secrets.json");

/** Takes the folder for this process, or says who has it; waits for what a killed supervisor left behind. */
export async function takeData(data: string, say: (text: string) => void): Promise<void> {
  const made = await mkdir(join(data, "logs"), { recursive: true }).catch((error: NodeJS.ErrnoException) => {
    if (!UNUSABLE.includes(error.code ?? "")) throw error;
    throw new Sentence(`The data folder ${data} cannot be used (${error.code}): choose another one with --data.`);
  });
  // Others may pass through to what is theirs (PostgreSQL runs as `nobody` under root), but may list nothing. A folder
  // that was there before, a home perhaps, keeps the rights that its owner gave it.
  if (made !== undefined && made !== join(data, "logs")) await chmod(data, 0o711);
  await chmod(join(data, "logs"), 0o700);
  const holder = await readJson<Holder>(holderFile(data));
  if (holder !== null) {
    if ((await startOf(holder.pid)) === holder.started) {
      throw new Sentence(
        `The house in ${data} runs already (pid ${holder.pid}): stop it first, or choose another --data and --port.`,
      );
    }
    await awaitFormerHouse(holder, say);
  }
  await recordHolder(data, {});
  await rm(localFile(data), { force: true });
}

/** Says who holds the folder and which processes are the house's. */
export async function recordHolder(data: string, processes: Processes): Promise<void> {
  const started = async (pid: number): Promise<Started> => ({ pid, started: (await startOf(pid)) ?? "" });
  const entries = Object.entries(processes).map(async ([name, pid]) => [name, await started(pid)] as const);
  const holder: Holder = { ...(await started(process.pid)), processes: Object.fromEntries(await Promise.all(entries)) };
  await writeWhole(holderFile(data), holder);
}

export async function writeLocal(data: string, local: LocalJson): Promise<void> {
  await writeWhole(localFile(data), local);
}

/** After a clean stop nobody holds the folder and there is no house to find. */
export async function releaseData(data: string): Promise<void> {
  await rm(localFile(data), { force: true });
  await rm(holderFile(data), { force: true });
}

/** Forgets everything; the folder itself stays when it holds what is not ours. */
export async function forgetData(data: string): Promise<void> {
  forgetPostgres(postgresFolder(data));
  for (const path of [natsFolder(data), join(data, "logs"), localFile(data), secretsFile(data), holderFile(data)]) {
    await rm(path, { recursive: true, force: true });
  }
}

/** Whether a live supervisor holds the folder. */
export async function holderOf(data: string): Promise<number | null> {
  const holder = await readJson<Holder>(holderFile(data));
  return holder !== null && (await startOf(holder.pid)) === holder.started ? holder.pid : null;
}

/** The kept secrets, with new ones for whatever has none yet, such as the password of a new room. */
export async function loadSecrets(data: string): Promise<Secrets> {
  const kept = await readJson<Secrets>(secretsFile(data));
  const secret = () => randomBytes(32).toString("base64url");
  const key = () => randomBytes(32).toString("base64");
  const secrets: Secrets = {
    postgres_password: secret(),
    nats_password: secret(),
    rpc_token: secret(),
    operator_token: secret(),
    key_pepper: key(),
    fingerprint_key: key(),
    vault_keys: `k1:${key()}`,
    sim_secret: secret(),
    ...kept,
    room_passwords: {
      ...Object.fromEntries(rooms.map(({ name }) => [name, secret()])),
      ...kept?.room_passwords,
    },
  };
  await saveSecrets(data, secrets);
  return secrets;
}

export async function saveSecrets(data: string, secrets: Secrets): Promise<void> {
  await writeWhole(secretsFile(data), secrets);
}

async function writeWhole(path: string, value: unknown): Promise<void> {
  const fresh = `${path}.${process.pid}.new`;
  await writeFile(fresh, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600 });
  await rename(fresh, path);
}

async function readJson<T>(path: string): Promise<T | null> {
  const text = await readFile(path, "utf8").catch(() => null);
  if (text === null) return null;
  try {
    return JSON.parse(text) as T;
  } catch {
    throw new Sentence(`${path} is not readable as JSON: mend it, or forget the data with npm run reset.`);
  }
}

/** The processes of a killed supervisor leave by themselves; one that does not is ended before it can do harm. */
async function awaitFormerHouse(holder: Holder, say: (text: string) => void): Promise<void> {
  const deadline = Date.now() + FORMER_HOUSE_MS;
  for (let told = false; ; told = true) {
    const left: number[] = [];
    for (const { pid, started } of Object.values(holder.processes)) {
      if ((await startOf(pid)) === started) left.push(pid);
    }
    if (left.length === 0) return;
    if (!told) say(`waiting for the former house to leave (pids ${left.join(", ")})`);
    if (Date.now() > deadline) {
      for (const pid of left) process.kill(pid, "SIGKILL");
      await sleep(200);
      return;
    }
    await sleep(100);
  }
}
