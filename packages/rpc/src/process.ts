// The life of one process: settings, log, health and metrics, then the room's own wiring, and at the end a drain in the
// opposite order. It leaves on SIGTERM, on SIGINT and when the supervisor that started it is gone.

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { startTracing } from "@cauri/trace/tracing";
import { type Log, logger, standardOutput } from "./log.ts";
import { register, watchProcess } from "./metrics.ts";
import { type Reader, readSettings, SettingError, type Settings } from "./settings.ts";

/** The rooms that live behind `runService`; the gateway has ports of its own and uses `runProcess`. */
type Room = Extract<Reader, "accounts" | "ledger" | "rails" | "collections" | "payouts" | "webhooks">;

/** Says null when it is well, else a sentence. */
export type Probe = () => Promise<string | null>;

export type Running<R extends Reader> = {
  readonly settings: Settings<R>;
  readonly log: Log;
  /** Registers a step of the drain; the last one registered goes first. */
  atDrain(name: string, step: () => Promise<unknown> | unknown): void;
  /** Registers what `/readyz` asks. */
  atReady(name: string, probe: Probe): void;
  /** Registers what `/readyz` tells beside its answer without changing it: what people must see and traffic need not flee. */
  atNotice(notices: () => readonly string[]): void;
  notices(): readonly string[];
  /** Asks every probe; what isn't well is told by name. */
  readiness(): Promise<string[]>;
};

/** The ports to tell the supervisor, by name. */
type Ports = { readonly [name: string]: number };

/** A probe that takes longer than this is not well. */
const PROBE_MS = 2_000;

/** Runs a service: `main` wires it and returns its ports. Resolves when it is ready; the process ends by itself later. */
export function runService<R extends Room>(
  room: R,
  main: (running: Running<R>) => Promise<{ readonly ports: Ports }>,
): Promise<void> {
  return runProcess(room, async (running) => {
    // Every room has these settings, which the type of `Settings<R>` cannot say while R is open.
    const settings = running.settings as unknown as Settings<"webhooks">;
    const health = await serveHealth(settings, running);
    // Registered first, so that it closes last: the cluster sees "draining" until the end.
    running.atDrain("health", () => close(health.server));
    const { ports } = await main(running);
    return { ports: { ...ports, metrics: health.port } };
  });
}

/** The same for a program that serves health and metrics itself. */
export async function runProcess<R extends Reader>(
  reader: R,
  main: (running: Running<R>) => Promise<{ readonly ports: Ports }>,
): Promise<void> {
  let settings: Settings<R>;
  try {
    settings = readSettings(reader, process.env);
  } catch (error) {
    if (!(error instanceof SettingError)) throw error;
    process.stderr.write(`${reader} does not start:\n${error.message}\n`);
    process.exit(78);
  }
  const common = settings as unknown as Settings<"webhooks">;
  const stopTracing = await startTracing({
    service: reader,
    endpoint: common.OTEL_EXPORTER_OTLP_ENDPOINT,
    ratio: common.CAURI_TRACE_PERCENT / 100,
    warn: (fields, message) => log.warn(fields, message),
  });
  // Made after it, because its lines carry the ids of their spans.
  const log = logger(reader, common.CAURI_LOG_LEVEL, standardOutput(tellSupervisor));
  const steps: { readonly name: string; readonly step: () => unknown }[] = [];
  const probes: { readonly name: string; readonly probe: Probe }[] = [];
  const notices: (() => readonly string[])[] = [];
  let draining = false;
  const running: Running<R> = {
    settings,
    log,
    atDrain: (name, step) => steps.unshift({ name, step }),
    atReady: (name, probe) => probes.push({ name, probe }),
    atNotice: (notice) => notices.push(notice),
    notices: () => notices.flatMap((notice) => notice()),
    readiness: async () => (draining ? ["draining"] : askAll(probes)),
  };
  // Registered first, so that it goes last: the drain itself may still make spans.
  running.atDrain("traces", stopTracing);
  const leave = async (why: string) => {
    if (draining) return;
    draining = true;
    log.info({ why }, "draining");
    const code = await drain(steps, common.CAURI_DRAIN_MS, log);
    process.exit(code);
  };
  process.on("SIGTERM", () => void leave("SIGTERM"));
  process.on("SIGINT", () => void leave("SIGINT"));
  process.on("disconnect", () => void leave("the supervisor is gone"));
  // After an error that nobody caught the state is unknown: leave at once, the supervisor starts a clean process.
  process.on("uncaughtException", (error) => {
    log.fatal({ err: error }, "uncaught");
    process.exit(70);
  });
  watchProcess();
  try {
    const { ports } = await main(running);
    log.info({ ports }, "ready");
    process.send?.({ ready: true, ports });
  } catch (error) {
    log.fatal({ err: error }, "the start failed");
    process.exit(70);
  }
}

/** The supervisor of a local house shows people what is loud. The log itself it does not read: that cost it 1.5 % of a payment. */
function tellSupervisor(line: string): void {
  // A channel that closes under it is told by its own event.
  if (process.connected) process.send?.({ loud: line }, undefined, undefined, () => {});
}

async function drain(
  steps: readonly { readonly name: string; readonly step: () => unknown }[],
  limit_ms: number,
  log: Log,
): Promise<number> {
  const all = (async () => {
    for (const { name, step } of steps) {
      try {
        await step();
      } catch (error) {
        log.error({ err: error, step: name }, "a step of the drain failed");
      }
    }
    return true;
  })();
  const inTime = await Promise.race([all, sleep(limit_ms, false)]);
  if (!inTime) log.warn({ limit_ms }, "the drain was cut off");
  return 0;
}

async function askAll(probes: readonly { readonly name: string; readonly probe: Probe }[]): Promise<string[]> {
  const answers = await Promise.all(
    probes.map(async ({ name, probe }) => {
      const slow = sleep(PROBE_MS, "does not answer", { ref: false });
      const answer = await Promise.race([probe(), slow]).catch(() => "failed");
      return answer === null ? [] : [`${name}: ${answer}`];
    }),
  );
  return answers.flat();
}

type HealthSettings = Pick<Settings<"webhooks">, "CAURI_BIND_HOST" | "CAURI_METRICS_PORT">;

/** `/healthz` says that the process turns, `/readyz` that it can serve, `/metrics` how it does. */
async function serveHealth(settings: HealthSettings, running: Pick<Running<Room>, "readiness" | "notices">) {
  const server = createServer(async (request, response) => {
    const path = request.url?.split("?")[0];
    if (path === "/healthz") {
      response.end("ok\n");
    } else if (path === "/readyz") {
      const problems = await running.readiness();
      const lines = [...(problems.length === 0 ? ["ready"] : problems), ...running.notices()];
      response.writeHead(problems.length === 0 ? 200 : 503, { "content-type": "text/plain" });
      response.end(`${lines.join("\n")}\n`);
    } else if (path === "/metrics") {
      response.writeHead(200, { "content-type": register.contentType });
      response.end(await register.metrics());
    } else {
      response.writeHead(404).end();
    }
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(settings.CAURI_METRICS_PORT, settings.CAURI_BIND_HOST, resolve);
  });
  return { server, port: (server.address() as AddressInfo).port };
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
