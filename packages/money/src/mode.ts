// Test mode and live mode: every key, account book, operation and event belongs to exactly one.

export type Mode = "test" | "live";

export function isMode(text: string): text is Mode {
  return text === "test" || text === "live";
}
