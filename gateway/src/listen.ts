// Opening the ports, with a sentence instead of a stack where one is taken.

import type { AddressInfo } from "node:net";
import type { FastifyInstance } from "fastify";

export async function listen(app: FastifyInstance, host: string, port: number): Promise<number> {
  try {
    await app.listen({ host, port });
  } catch (cause) {
    throw new Error(`the port ${host}:${port} cannot be opened`, { cause });
  }
  return (app.server.address() as AddressInfo).port;
}
