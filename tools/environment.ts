// What each process of a local house is told by its environment: the variables of production, filled in.

import { readSettings, SettingError } from "@cauri/rpc/settings";
import { type Reader, SETTINGS } from "@cauri/rpc/settings-table";
import { roomUrl } from "@cauri/store/migrate";
import type { Secrets } from "./data.ts";
import type { StartOptions } from "./options.ts";
import { freePorts } from "./ports.ts";
import { type Room, rooms, schemaName, settingName } from "./rooms.ts";
import { Sentence } from "./sentence.ts";

/** The same through every restart of a process, so that the others find it again. */
export type RoomPorts = Readonly<Record<string, { readonly rpc: number; readonly metrics: number }>>;

export type Wiring = {
  readonly options: StartOptions;
  readonly secrets: Secrets;
  readonly ports: RoomPorts;
  readonly database_url: string;
  readonly nats_url: string;
};

/** Below the ten seconds of a stop, so that the services can still leave after the gateway has. */
const DRAIN_MS = 5_000;

export const baseUrl = (options: StartOptions) => `http://127.0.0.1:${options.port}`;
/** Native gRPC, over HTTP/2 in clear text. */
export const grpcUrl = (options: StartOptions) => `http://127.0.0.1:${options.grpc_port}`;
export const adminUrl = (options: StartOptions) => `http://127.0.0.1:${options.admin_port}`;

/** Throws a sentence when the person's environment holds a wrong name or value: before anything is started. */
export function checkSettings(env: NodeJS.ProcessEnv): void {
  try {
    readSettings("tools", env);
  } catch (error) {
    throw error instanceof SettingError ? new Sentence(error.message) : error;
  }
}

/** Throws a sentence when any process would refuse its settings, before there are servers to tell it of. */
export function checkRooms(options: StartOptions, secrets: Secrets, env: NodeJS.ProcessEnv): void {
  const servers = { database_url: "postgres://127.0.0.1/cauri", nats_url: "nats://127.0.0.1" };
  const ports = Object.fromEntries(rooms.map(({ name }) => [name, { rpc: 1, metrics: 1 }]));
  for (const room of rooms) roomEnvironment(room, { options, secrets, ports, ...servers }, env);
}

export async function choosePorts(): Promise<RoomPorts> {
  const ports = await freePorts(rooms.length * 2);
  return Object.fromEntries(
    rooms.map(({ name }, at) => [name, { rpc: ports[2 * at] ?? 0, metrics: ports[2 * at + 1] ?? 0 }]),
  );
}

/** The environment of one process: of the house's settings only those that it reads. */
export function roomEnvironment(room: Room, wiring: Wiring, env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const values: NodeJS.ProcessEnv = { ...usualSettings(wiring), ...env, ...fixedSettings(room, wiring) };
  const entries = Object.entries(values).filter(([name]) => isFor(room.name, name));
  const own = Object.fromEntries(entries);
  try {
    readSettings(room.name, own);
  } catch (error) {
    throw error instanceof SettingError ? new Sentence(`${room.name}: ${error.message}`) : error;
  }
  return own;
}

/** What the person's environment may say otherwise. */
function usualSettings({ options, secrets }: Wiring): NodeJS.ProcessEnv {
  return {
    CAURI_KEY_PEPPER: secrets.key_pepper,
    CAURI_FINGERPRINT_KEY: secrets.fingerprint_key,
    CAURI_VAULT_KEYS: secrets.vault_keys,
    CAURI_SIM_SECRET: secrets.sim_secret,
    CAURI_CALLBACK_URL: baseUrl(options),
    CAURI_PAY_URL: baseUrl(options),
    CAURI_LIVE_RAILS: "simulator",
    CAURI_DRAIN_MS: String(DRAIN_MS),
  };
}

/** What holds this house together. */
function fixedSettings(room: Room, { options, secrets, ports, database_url, nats_url }: Wiring): NodeJS.ProcessEnv {
  const own = ports[room.name];
  const perRoom = rooms.flatMap(({ name }) => [
    [`CAURI_${settingName(name)}_ADDRESS`, `127.0.0.1:${ports[name]?.rpc}`],
    [
      `CAURI_${settingName(name)}_DATABASE_URL`,
      roomUrl(database_url, schemaName(name), secrets.room_passwords[name] ?? ""),
    ],
  ]);
  return {
    ...Object.fromEntries(perRoom),
    NATS_URL: nats_url,
    CAURI_RPC_TOKEN: secrets.rpc_token,
    CAURI_OPERATOR_TOKEN: secrets.operator_token,
    CAURI_RPC_PORT: String(own?.rpc),
    CAURI_METRICS_PORT: String(own?.metrics),
    CAURI_PORT: String(options.port),
    CAURI_ADMIN_PORT: String(options.admin_port),
    CAURI_GRPC_PORT: String(options.grpc_port),
  };
}

/** Settings of other programs stay away, the migrator's DATABASE_URL above all; what is no setting passes. */
function isFor(reader: Reader, name: string): boolean {
  if (!Object.hasOwn(SETTINGS, name)) return !name.startsWith("CAURI_") && !name.startsWith("npm_");
  const readers: readonly Reader[] = SETTINGS[name as keyof typeof SETTINGS].readers;
  return readers.includes(reader);
}
