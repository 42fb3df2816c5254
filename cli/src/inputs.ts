// What a person types, as values: durations, amounts, switches. A text that means nothing is wrong usage, said by name.

import { create } from "@bufbuild/protobuf";
import { type Timestamp, TimestampSchema } from "@bufbuild/protobuf/wkt";
import { parseTimestamp } from "@cauri/rpc/json-form";
import { InvalidArgumentError } from "commander";

/** Milliseconds per unit of a duration. */
const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const;

const DURATION = /^(\d{1,12})(ms|s|m|h|d|w)$/;

/** The largest number that JSON carries exactly; no amount of the house is above it. */
const MAX_MINOR = 9_007_199_254_740_991n;

/** `500ms`, `90s`, `15m`, `24h`, `31d`, `2w` in milliseconds. */
export function parseDuration(text: string): number {
  const [, digits, unit] = DURATION.exec(text) ?? [];
  const ms = Number(digits) * UNITS[unit as keyof typeof UNITS];
  if (!Number.isSafeInteger(ms)) {
    throw new InvalidArgumentError("Write a duration such as 500ms, 90s, 15m, 24h, 31d or 2w.");
  }
  return ms;
}

/** A duration that is told to the house in seconds. */
export function parseSeconds(text: string): number {
  const ms = parseDuration(text);
  if (ms % 1_000 !== 0) throw new InvalidArgumentError("Whole seconds only, such as 90s or 24h.");
  return ms / 1_000;
}

/** An amount in minor units: digits and nothing else, so that 10.50 is never read as 10 or as 1050. */
export function parseMinor(text: string): bigint {
  const amount = /^\d{1,16}$/.test(text) ? BigInt(text) : -1n;
  if (amount < 0n || amount > MAX_MINOR) {
    throw new InvalidArgumentError(`Write a whole number of minor units from 0 to ${MAX_MINOR}.`);
  }
  return amount;
}

export function parseWhole(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError("Write a whole number.");
  return Number(text);
}

export function parseOnOff(text: string): boolean {
  if (text !== "on" && text !== "off") throw new InvalidArgumentError("Write on or off.");
  return text === "on";
}

export type Switch = { readonly name: string; readonly on: boolean };

/** One `name=on`; the option may be given several times. */
export function parseSwitch(text: string, before: readonly Switch[] = []): readonly Switch[] {
  const [, name, on] = /^([a-z_]+)=(on|off)$/.exec(text) ?? [];
  if (name === undefined || on === undefined) throw new InvalidArgumentError("Write name=on or name=off.");
  return [...before, { name, on: on === "on" }];
}

/** Words separated by commas. */
export function parseWords(text: string): readonly string[] {
  const words = text.split(",").map((word) => word.trim());
  if (words.includes("")) throw new InvalidArgumentError("Write words separated by commas.");
  return words;
}

/** An RFC 3339 time, or a day alone for its first instant in UTC. */
export function parseInstant(text: string): Timestamp {
  const parsed = parseTimestamp(/^\d{4}-\d{2}-\d{2}$/.test(text) ? `${text}T00:00:00Z` : text);
  if (parsed === null)
    throw new InvalidArgumentError("Write a time such as 2026-11-20T18:53:00Z, or a day such as 2026-11-20.");
  return create(TimestampSchema, parsed);
}
