// Faults: the database, the network, another process. Thrown with their cause, mapped here once to a gRPC status
// without a reason; what they say never leaves the house.

import { status } from "@grpc/grpc-js";

/** Statuses that a later attempt may not meet again; the gateway answers them with 503. */
const PASSING: ReadonlySet<number> = new Set([status.UNAVAILABLE, status.DEADLINE_EXCEEDED, status.RESOURCE_EXHAUSTED]);

/** A call to another process of the house that was not answered, or answered with a fault. */
export class RpcFault extends Error {
  override readonly name = "RpcFault";
  /** Number of the gRPC status. */
  readonly code: number;

  constructor(method: string, code: number, cause: unknown) {
    super(`${method}: ${status[code] ?? code}`, { cause });
    this.code = code;
  }

  /** Nothing is known to be wrong but the moment: a repetition may pass. */
  get unavailable(): boolean {
    return PASSING.has(this.code);
  }
}

/** PostgreSQL's classes for "not now": connection lost, too many clients, shut down, locks and statements timed out. */
const POSTGRES_PASSING = /^(08...|53...|57P0.|55P03|57014|25P03|40001|40P01)$/;
const SYSTEM_PASSING: ReadonlySet<unknown> = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ETIMEDOUT",
  "ENOTFOUND",
  "EAI_AGAIN",
]);
/** What `pg` says without any code when its connection goes away or none becomes free. */
const DRIVER_PASSING =
  /Connection terminated|timeout exceeded when trying to connect|connection error|Query read timeout/i;

/** The gRPC status of whatever a handler threw. */
export function statusOfFault(error: unknown): number {
  for (let at = error; at instanceof Error; at = at.cause) {
    // A full queue is told apart from a lost process: the gateway repeats the latter at once.
    if (at.name === "Busy") return status.RESOURCE_EXHAUSTED;
    if (at instanceof RpcFault) return at.unavailable ? status.UNAVAILABLE : status.INTERNAL;
    if (at.name === "AssertionError") return status.INTERNAL;
    // The store marks what the database may not say again in a moment.
    if ("unavailable" in at && at.unavailable === true) return status.UNAVAILABLE;
    const code = "code" in at ? at.code : undefined;
    if (SYSTEM_PASSING.has(code) || (typeof code === "string" && POSTGRES_PASSING.test(code)))
      return status.UNAVAILABLE;
    if (DRIVER_PASSING.test(at.message)) return status.UNAVAILABLE;
  }
  return status.INTERNAL;
}

/** What a caller is told of a fault: nothing of its cause. */
export function sentenceOfFault(code: number): string {
  return code === status.INTERNAL ? "a defect of the house" : "a passing unavailability";
}
