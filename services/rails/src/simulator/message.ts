// The body of a simulated operator's callback: written by its deliveries, read by the connector.

import { type FailureCode, isFailureCode } from "@cauri/money/failure";
import type { RailAnswer } from "../attempt.ts";
import type { ChargeNews } from "./charge.ts";
import type { Letter } from "./store.ts";

const STATUSES: { readonly [N in ChargeNews]: Status } = {
  settle: "success",
  reject: "failed",
  cancel: "cancelled",
  return: "returned",
};
type Status = "success" | "failed" | "cancelled" | "returned";

export type Message = {
  readonly event_id: string;
  readonly reference: string;
  readonly status: Status;
  readonly amount_minor: number;
  readonly currency: string;
  readonly failure_code: FailureCode | null;
};

export function writeMessage(letter: Omit<Letter, "tries" | "comes_back" | "copies">): Buffer {
  const { reference, news } = letter;
  const message: Message = {
    // The same news come to a charge once: no arrow leads back.
    event_id: `${reference}:${news}`,
    reference,
    status: STATUSES[news],
    amount_minor: Number(letter.amount_minor),
    currency: letter.currency,
    failure_code: news === "reject" ? letter.failure_code : null,
  };
  return Buffer.from(JSON.stringify(message), "utf8");
}

/** The message in a body, or null where it is none. */
export function readMessage(body: Buffer): Message | null {
  let read: unknown;
  try {
    read = JSON.parse(body.toString("utf8"));
  } catch {
    return null;
  }
  return isMessage(read) ? read : null;
}

/** What a message says of the attempt. */
export function newsOfMessage(message: Message): RailAnswer {
  switch (message.status) {
    case "success":
      return { outcome: "success", amount_minor: BigInt(message.amount_minor), currency: message.currency };
    case "returned":
      return { outcome: "returned", amount_minor: BigInt(message.amount_minor), currency: message.currency };
    case "failed":
      return { outcome: "failed", failure_code: message.failure_code ?? "unknown" };
    case "cancelled":
      return { outcome: "cancelled" };
  }
}

function isMessage(read: unknown): read is Message {
  if (typeof read !== "object" || read === null) return false;
  const message = read as Partial<Record<keyof Message, unknown>>;
  return (
    typeof message.event_id === "string" &&
    typeof message.reference === "string" &&
    typeof message.currency === "string" &&
    Number.isSafeInteger(message.amount_minor) &&
    ["success", "failed", "cancelled", "returned"].includes(String(message.status)) &&
    (message.failure_code === null || isFailureCode(String(message.failure_code)))
  );
}
