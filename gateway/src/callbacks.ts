// Callbacks of rails: passed on as they came, byte for byte, because their signatures are over the bytes. Rails decides
// whether one is authentic; here it only has a size.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { create } from "@bufbuild/protobuf";
import { RailsService, ReceiveCallbackRequestSchema } from "@cauri/proto/es/cauri/rails/v1/rails_pb";
import type { Log } from "@cauri/rpc/log";
import type { FastifyInstance } from "fastify";
import { sendRefusal } from "./edge.ts";
import { refusalFor, repeated } from "./invoke.ts";
import { edgeRefusal } from "./reasons.ts";
import type { Upstreams } from "./upstream.ts";

const BODY_LIMIT = 262_144;
const TIMEOUT_MS = 8_000;
const CONNECTOR = /^[a-z0-9_-]{1,64}$/;
/** Of the way here, not of the message: a signature never covers them. */
const HOP_HEADERS = new Set(["connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "cookie"]);

export function mountCallbacks(app: FastifyInstance, upstreams: Upstreams, log: Log): void {
  const body = { limit: BODY_LIMIT, json: false, may_be_empty: true };
  app.post<{ Params: { connector: string } }>("/callbacks/:connector", { config: { body } }, async (request, reply) => {
    const { connector } = request.params;
    if (!CONNECTOR.test(connector)) return sendRefusal(request, reply, edgeRefusal("not_found", "no such connector"));
    const message: MessageInitShape<typeof ReceiveCallbackRequestSchema> = {
      connector,
      headers: plainHeaders(request.headers),
      body: request.body instanceof Uint8Array ? request.body : new Uint8Array(),
    };
    const ends = Date.now() + TIMEOUT_MS;
    const method = RailsService.method.receiveCallback;
    const ask = create(ReceiveCallbackRequestSchema, message);
    const call = { caller: { request_id: request.id }, timeout_ms: TIMEOUT_MS };
    try {
      // Repeating is harmless: rails knows a callback by its content.
      const { message: answer } = await repeated(() => upstreams.call(method, ask, call), ends);
      if (!answer.connectorKnown) return sendRefusal(request, reply, edgeRefusal("not_found", "no such connector"));
      if (!answer.authentic) return reply.code(401).send(UNAUTHENTIC);
      return reply.send({ received: true });
    } catch (error) {
      // Operators repeat what is not answered 2xx: a passing fault must not look like a refusal.
      return sendRefusal(request, reply, refusalFor(error, "callback", request.id, log));
    }
  });
}

/** Told to an operator's machine, not to a merchant: the contract's table of codes does not reach here. */
const UNAUTHENTIC = { error: { code: "invalid_signature", message: "the callback is not authentic" } };

function plainHeaders(headers: NodeJS.Dict<string | string[]>): Record<string, string> {
  const plain: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined && !HOP_HEADERS.has(name))
      plain[name] = typeof value === "string" ? value : value.join(", ");
  }
  return plain;
}
