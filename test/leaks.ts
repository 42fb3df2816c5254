// The last check of a run of stories: no key, secret or raw payer detail that the run used is in any log.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** The payer of `paymentBody`: what only the vault may hold. */
export const RAW_PAYER = ["22505040302", "Awa Kone", "awa@example.com"] as const;

/** One sentence per secret found; `secrets_file` holds one secret per line. */
export function findLeaks(logs: string, secrets_file: string): string[] {
  const secrets = readFileSync(secrets_file, "utf8")
    .split("\n")
    .filter((line) => line !== "");
  const leaks: string[] = [];
  for (const file of readdirSync(logs)) {
    const text = readFileSync(join(logs, file), "utf8");
    for (const secret of new Set([...secrets, ...RAW_PAYER])) {
      const at = text.indexOf(secret);
      if (at < 0) continue;
      const line = text.slice(0, at).split("\n").length;
      leaks.push(
        `${file}:${line} holds a secret of ${secret.length} characters that begins with ${secret.slice(0, 8)}`,
      );
    }
  }
  return leaks;
}
