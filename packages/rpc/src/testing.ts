// For tests of the wire: a room with handlers of the test, a client to it, and ends that behave as no room of ours does.

import { connect, createServer, type Socket, type Server as TcpServer } from "node:net";
import { refuse } from "@cauri/money/refusal";
import { WebhookServiceClient, WebhookServiceService } from "@cauri/proto/ts/cauri/webhooks/v1/webhooks";
import { Server, ServerCredentials, type UntypedServiceImplementation } from "@grpc/grpc-js";
import { type Caller, houseCaller } from "./caller.ts";
import { connectClient, type Promisified } from "./client.ts";
import { logger } from "./log.ts";
import { type Handlers, type RunningServer, service, startServer } from "./server.ts";

export type Rooms = Handlers<typeof WebhookServiceService>;
type Test = { after(fn: () => unknown): void };

export const TOKEN = "house";
export const caller: Caller = { ...houseCaller("acct_1", "test", "req-1"), key_id: "key_1" };

export type Room = { readonly server: RunningServer; readonly lines: Record<string, unknown>[] };

/** A room with the handlers given, and the log lines that it wrote. */
export async function openRoom(t: Test, handlers: Partial<Rooms>, port = 0): Promise<Room> {
  const lines: Record<string, unknown>[] = [];
  const log = logger("test", "debug", { write: (line: string) => void lines.push(JSON.parse(line)) });
  const missing = async () => refuse("internal_error", "not in this test");
  const all = Object.fromEntries(
    Object.keys(WebhookServiceService).map((name) => [name, handlers[name as keyof Rooms] ?? missing]),
  ) as unknown as Rooms;
  const settings = {
    CAURI_BIND_HOST: "127.0.0.1",
    CAURI_RPC_PORT: port,
    CAURI_RPC_TOKEN: TOKEN,
    CAURI_DRAIN_MS: 10_000,
  };
  const services = [service(WebhookServiceService, all)];
  const server = await startServer({ room: "webhooks", settings, log, services });
  t.after(() => server.drain());
  return { server, lines };
}

/** A client of one or more ports, as of the replicas of one service. */
export function openClient(
  t: Test,
  ports: number | readonly number[],
  token = TOKEN,
): Promisified<typeof WebhookServiceService> {
  const addresses = [ports].flat().map((port) => `127.0.0.1:${port}`);
  const client = connectClient(WebhookServiceClient, { address: `ipv4:${addresses.join(",")}`, token });
  t.after(() => client.closeChannel());
  return client;
}

/** A gRPC server as it comes, for what no room of ours would do. */
export async function openDouble(
  t: Test,
  parts: readonly (readonly [definition: object, implementation: UntypedServiceImplementation])[],
): Promise<number> {
  const server = new Server();
  for (const [definition, implementation] of parts) server.addService(definition as never, implementation);
  t.after(() => server.forceShutdown());
  return new Promise((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) =>
      error ? reject(error) : resolve(port),
    );
  });
}

/** A wire between client and server that can be cut. */
export async function openWire(t: Test, port: number): Promise<{ readonly port: number; cut(): void }> {
  const open = new Set<Socket>();
  const wire: TcpServer = createServer((near) => {
    const far = connect(port, "127.0.0.1");
    for (const [from, to] of [[near, far] as const, [far, near] as const]) {
      open.add(from);
      from.pipe(to);
      from.on("error", () => {});
      from.on("close", () => {
        open.delete(from);
        to.destroy();
      });
    }
  });
  const cut = () => {
    for (const socket of open) socket.destroy();
  };
  t.after(() => {
    cut();
    wire.close();
  });
  await new Promise<void>((resolve) => wire.listen(0, "127.0.0.1", resolve));
  return { port: (wire.address() as { port: number }).port, cut };
}
