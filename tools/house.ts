// The whole house on one machine: PostgreSQL, nats-server, every service and the gateway, each its own process, started
// in the order of their needs, kept running, and stopped in the opposite order.

import { setTimeout as sleep } from "node:timers/promises";
import {
  type Demo,
  forgetData,
  loadSecrets,
  logFile,
  natsFolder,
  postgresFolder,
  recordHolder,
  releaseData,
  type Secrets,
  saveSecrets,
  takeData,
  writeLocal,
} from "./data.ts";
import { provideDemo } from "./demo.ts";
import {
  adminUrl,
  baseUrl,
  checkRooms,
  checkSettings,
  choosePorts,
  grpcUrl,
  roomEnvironment,
  type Wiring,
} from "./environment.ts";
import { type Keeper, keep, type Running } from "./keeper.ts";
import { migrateAll } from "./migrate.ts";
import { findNats, requireNats, startNats } from "./nats.ts";
import type { StartOptions } from "./options.ts";
import { requireOwnDatabaseServer, requireOwnNats } from "./other-house.ts";
import { requireFreePort } from "./ports.ts";
import { startPostgres } from "./postgres.ts";
import { type Room, rooms } from "./rooms.ts";
import { Sentence } from "./sentence.ts";
import { startService } from "./service.ts";

/** A stop takes ten seconds at most: so long for the gateway, then for the services; the servers have the rest. */
const GATEWAY_STOP_MS = 6_000;
const SERVICES_STOP_MS = 2_500;
const SERVER_STOP_MS = 750;
const READY_WITHIN_MS = 60_000;

type Say = (text: string) => void;

export type House = {
  /** Starts everything; settles when the house is ready, rejects with a sentence when it cannot be. */
  start(): Promise<Ready>;
  /** Finishes what runs and stops everything, also in the middle of a start. */
  stop(): Promise<void>;
  /** Ends every process at once. */
  kill(): void;
};

export type Ready = {
  readonly base_url: string;
  readonly grpc_url: string;
  readonly admin_url: string;
  readonly demo: Demo | null;
};

type State = {
  readonly options: StartOptions;
  readonly say: Say;
  readonly stopping: AbortController;
  readonly keepers: Map<string, Keeper>;
  readonly processes: Map<string, number>;
  /** Writes what others read about the house; replaced once there are handles to write. */
  record: () => Promise<void>;
};

export function createHouse(options: StartOptions, say: Say): House {
  const state: State = {
    options,
    say,
    stopping: new AbortController(),
    keepers: new Map(),
    processes: new Map(),
    record: () => recordHolder(options.data, Object.fromEntries(state.processes)),
  };
  let taken = false;
  let starting: Promise<unknown> = Promise.resolve();
  return {
    start() {
      const start = (async () => {
        checkSettings(process.env);
        await takeData(options.data, say);
        taken = true;
        return startHouse(state);
      })();
      starting = start.catch(() => {});
      return start;
    },
    async stop() {
      state.stopping.abort();
      await starting;
      // The ends of the processes are no news to write down any more.
      state.record = async () => {};
      await inTurn(state);
      await stopKeepers(state.keepers);
      if (taken) await releaseData(options.data);
    },
    kill() {
      state.stopping.abort();
      for (const keeper of state.keepers.values()) keeper.kill();
    },
  };
}

async function startHouse(state: State): Promise<Ready> {
  const { options, say, stopping } = state;
  if (options.fresh) {
    say(`forgetting the data in ${options.data}`);
    await forgetData(options.data);
    await takeData(options.data, say);
  }
  await requireFreePort(options.port, "--port");
  await requireFreePort(options.admin_port, "--admin-port");
  await requireFreePort(options.grpc_port, "--grpc-port");
  const secrets = await loadSecrets(options.data);
  checkRooms(options, secrets, process.env);
  const [database_url, nats_url, ports] = await Promise.all([
    provideDatabase(state, secrets),
    provideNats(state, secrets),
    choosePorts(),
  ]);
  stopping.signal.throwIfAborted();
  const wiring: Wiring = { options, secrets, ports, database_url, nats_url };
  say(`starting ${rooms.map(({ name }) => name).join(", ")}`);
  await Promise.all(rooms.map((room) => keepRoom(state, room, wiring)));
  await awaitReady(baseUrl(options), stopping.signal);
  const demo = options.demo ? await demoAccount(state, secrets) : null;
  const urls = { base_url: baseUrl(options), grpc_url: grpcUrl(options), admin_url: adminUrl(options) };
  state.record = () => {
    const processes = Object.fromEntries(state.processes);
    const { account_id = null, test_key = null, live_key = null } = demo ?? {};
    const { operator_token } = secrets;
    const handles = { ...urls, operator_token, database_url, nats_url, account_id, test_key, live_key, processes };
    return recordHolder(options.data, processes).then(() => writeLocal(options.data, handles));
  };
  await inTurn(state);
  return { ...urls, demo };
}

/** The local PostgreSQL, or the person's own, with every schema up to date. */
async function provideDatabase(state: State, secrets: Secrets): Promise<string> {
  const { options, say } = state;
  let url = options.database_url;
  if (url === null) {
    let port: number | undefined;
    const launch = async () => {
      const server = await startPostgres({
        home: postgresFolder(options.data),
        password: secrets.postgres_password,
        log_file: logFile(options.data, "postgres"),
        counts_statements: (process.env["CAURI_PROFILE"] ?? "") !== "",
        say,
        ...(port === undefined ? {} : { port }),
      });
      // The services know this port: it stays the same when PostgreSQL has to be started again.
      port = server.port;
      url = server.url;
      return server;
    };
    say("starting PostgreSQL");
    await keepProcess(state, "postgres", launch);
  }
  if (url === null) throw new Error("PostgreSQL runs without an address");
  say("migrating the rooms' schemas");
  try {
    if (options.database_url !== null) await requireOwnDatabaseServer(url);
    await migrateAll(url, secrets.room_passwords);
  } catch (error) {
    throw options.database_url === null ? error : unreachable("DATABASE_URL", error);
  }
  return url;
}

async function provideNats(state: State, secrets: Secrets): Promise<string> {
  const { options, say } = state;
  if (options.nats_url !== null) {
    await requireNats(options.nats_url);
    await requireOwnNats(options.nats_url);
    return options.nats_url;
  }
  const bin = await findNats(say, state.stopping.signal);
  let port: number | undefined;
  let url = "";
  const launch = async () => {
    const server = await startNats({
      bin,
      store_dir: natsFolder(options.data),
      log_file: logFile(options.data, "nats"),
      password: secrets.nats_password,
      ...(port === undefined ? {} : { port }),
    });
    port = server.port;
    url = server.url;
    return server;
  };
  say("starting nats-server");
  await keepProcess(state, "nats", launch);
  return url;
}

async function keepRoom(state: State, room: Room, wiring: Wiring): Promise<void> {
  const env = roomEnvironment(room, wiring, process.env);
  const log_file = logFile(state.options.data, room.name);
  const profile = process.env["CAURI_PROFILE"] ?? "";
  const service = { name: room.name, entry: room.entry, env, log_file, say: state.say, profile };
  await keepProcess(state, room.name, (stopping) => startService(service, stopping));
}

async function keepProcess(
  state: State,
  name: string,
  launch: (stopping: AbortSignal) => Promise<Running>,
): Promise<void> {
  const onPid = (pid: number | null) => {
    if (pid === null) state.processes.delete(name);
    else state.processes.set(name, pid);
    inTurn(state).catch((error: unknown) => state.say(`the list of processes cannot be written: ${error}`));
  };
  const { say, stopping } = state;
  state.keepers.set(name, await keep({ name, launch, stopping: stopping.signal, onPid, say }));
}

const turns = new WeakMap<State, Promise<void>>();

/** One writer at a time, so that an older list never replaces a newer one. */
function inTurn(state: State): Promise<void> {
  const turn = (turns.get(state) ?? Promise.resolve()).catch(() => {}).then(() => state.record());
  turns.set(state, turn);
  return turn;
}

async function awaitReady(base_url: string, stopping: AbortSignal): Promise<void> {
  const deadline = Date.now() + READY_WITHIN_MS;
  let last = "";
  while (Date.now() < deadline) {
    stopping.throwIfAborted();
    try {
      const response = await fetch(`${base_url}/readyz`, { signal: AbortSignal.timeout(2_000) });
      if (response.status === 200) return;
      last = await response.text();
    } catch (error) {
      last = error instanceof Error ? error.message : String(error);
    }
    await sleep(50);
  }
  throw new Sentence(`The house was not ready within ${READY_WITHIN_MS / 1000} s: ${last}`);
}

async function demoAccount(state: State, secrets: Secrets): Promise<Demo> {
  const { options } = state;
  const door = { admin_url: adminUrl(options), operator_token: secrets.operator_token };
  const demo = await provideDemo(door, secrets.demo);
  if (demo !== secrets.demo) await saveSecrets(options.data, { ...secrets, demo });
  return demo;
}

/** Gateway, services, nats-server, PostgreSQL: nobody loses what it still needs to finish. */
async function stopKeepers(keepers: ReadonlyMap<string, Keeper>): Promise<void> {
  const { gateway, nats, postgres, ...services } = Object.fromEntries(keepers);
  await gateway?.stop(GATEWAY_STOP_MS);
  await Promise.all(Object.values(services).map((keeper) => keeper.stop(SERVICES_STOP_MS)));
  await nats?.stop(SERVER_STOP_MS);
  await postgres?.stop(SERVER_STOP_MS);
}

function unreachable(name: string, error: unknown): Sentence {
  if (error instanceof Sentence) return error;
  return new Sentence(`The server of ${name} cannot be used: ${error instanceof Error ? error.message : error}`);
}
