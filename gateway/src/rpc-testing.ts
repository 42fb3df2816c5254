// For tests: typed clients of every protocol at a door, and what an error of theirs says.

import assert from "node:assert/strict";
import { type RefusalDetail, RefusalDetailSchema } from "@cauri/proto/es/cauri/api/v1/reason_pb";
import { ConnectError, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import type { TestDoor } from "./testing.ts";

export function transports(door: TestDoor): { [name: string]: Transport } {
  const baseUrl = door.base_url;
  return {
    "connect, JSON": createConnectTransport({ baseUrl, httpVersion: "1.1" }),
    "connect, binary": createConnectTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat: true }),
    "gRPC-Web": createGrpcWebTransport({ baseUrl, httpVersion: "1.1" }),
    gRPC: createGrpcTransport({ baseUrl: `http://127.0.0.1:${door.grpc_port}` }),
  };
}

/** What a call failed with. */
export async function failure(call: Promise<unknown>): Promise<ConnectError> {
  try {
    await call;
  } catch (error) {
    return ConnectError.from(error);
  }
  return assert.fail("it was answered");
}

/** Our reason in an error. */
export function detailOf(error: ConnectError): RefusalDetail {
  const [detail] = error.findDetails(RefusalDetailSchema);
  assert.ok(detail !== undefined, `no detail in ${error.message}`);
  return detail;
}
