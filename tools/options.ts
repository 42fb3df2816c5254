// The options of `npm start`: what the command line says, else the environment, else the default.

import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { Sentence } from "./sentence.ts";

export type StartOptions = {
  readonly port: number;
  readonly admin_port: number;
  readonly grpc_port: number;
  readonly data: string;
  readonly fresh: boolean;
  readonly demo: boolean;
  readonly database_url: string | null;
  readonly nats_url: string | null;
};

const USAGE = `npm start [-- options]
  --port 8080         the public door (CAURI_PORT)
  --admin-port 8081   the operators' door (CAURI_ADMIN_PORT)
  --grpc-port 8082    native gRPC (CAURI_GRPC_PORT)
  --data .cauri       the folder of everything that is kept (CAURI_DATA)
  --fresh             forget the data first
  --no-demo           make no demo account
DATABASE_URL and NATS_URL use existing servers instead of starting one.`;

/** Null when the person asked for help, which has then been shown. */
export function readStartOptions(args: readonly string[], env: NodeJS.ProcessEnv): StartOptions | null {
  const values = parse(args);
  if (values.help) {
    console.log(USAGE);
    return null;
  }
  const options = {
    // An empty variable counts as unset here too: an empty CAURI_DATA would otherwise be the current folder.
    port: port("--port", values.port ?? (env["CAURI_PORT"] || "8080")),
    admin_port: port("--admin-port", values["admin-port"] ?? (env["CAURI_ADMIN_PORT"] || "8081")),
    grpc_port: port("--grpc-port", values["grpc-port"] ?? (env["CAURI_GRPC_PORT"] || "8082")),
    data: resolve(values.data ?? (env["CAURI_DATA"] || ".cauri")),
    fresh: values.fresh,
    demo: !values["no-demo"],
    database_url: env["DATABASE_URL"] || null,
    nats_url: env["NATS_URL"] || null,
  };
  if (new Set([options.port, options.admin_port, options.grpc_port]).size < 3) {
    throw new Sentence(
      "The three doors need three ports: give --port, --admin-port and --grpc-port different numbers.",
    );
  }
  if (options.fresh && options.database_url !== null) {
    throw new Sentence("--fresh would not forget the database of DATABASE_URL: empty that one by hand, or unset it.");
  }
  return options;
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        port: { type: "string" },
        "admin-port": { type: "string" },
        "grpc-port": { type: "string" },
        data: { type: "string" },
        fresh: { type: "boolean", default: false },
        "no-demo": { type: "boolean", default: false },
        help: { type: "boolean", default: false },
      },
    }).values;
  } catch (error) {
    throw new Sentence(`${error instanceof Error ? error.message : error}\n\n${USAGE}`);
  }
}

function port(option: string, text: string): number {
  const number = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (number >= 1 && number <= 65_535) return number;
  throw new Sentence(`${option} must be a port from 1 to 65535, not "${text}".`);
}
