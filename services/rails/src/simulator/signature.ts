// How the simulated operator signs its callbacks: `t=<unix seconds>,v1=<hex HMAC-SHA256 of "t.body">`.

import { createHmac, timingSafeEqual } from "node:crypto";

export const SIGNATURE_HEADER = "x-simulator-signature";
/** A stamp further away than this, in either direction, is a replay or a broken clock. */
const TOLERANCE_MS = 300_000;
const FORM = /^t=(\d{1,12}),v1=([0-9a-f]{64})$/;

export function signCallback(secret: string, body: Buffer, now_ms: number): string {
  const stamp = Math.floor(now_ms / 1000);
  return `t=${stamp},v1=${mac(secret, stamp, body).toString("hex")}`;
}

/** Whether the header was made with our secret over exactly this body, lately. */
export function verifyCallback(secret: string, header: string | undefined, body: Buffer, now_ms: number): boolean {
  const parts = FORM.exec(header ?? "");
  if (parts === null) return false;
  const [, stamp_text = "", hex = ""] = parts;
  const stamp = Number(stamp_text);
  const matches = timingSafeEqual(mac(secret, stamp, body), Buffer.from(hex, "hex"));
  return matches && Math.abs(now_ms - stamp * 1000) <= TOLERANCE_MS;
}

function mac(secret: string, stamp: number, body: Buffer): Buffer {
  return createHmac("sha256", secret).update(`${stamp}.`).update(body).digest();
}
