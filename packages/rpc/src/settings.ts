// Reads the environment by the one table of settings: typed values, or a sentence that names what is wrong and stops
// the boot. Also writes `docs/settings.md` from the same table.

import { accessSync, constants, statSync } from "node:fs";
import { isIP } from "node:net";
import { type Reader, SETTINGS, type Setting } from "./settings-table.ts";

type Table = typeof SETTINGS;
export type SettingName = keyof Table;

type ValueOf<S extends Setting> = S["kind"] extends "number"
  ? number
  : S["kind"] extends "numbers"
    ? readonly number[]
    : S["kind"] extends "flag"
      ? boolean
      : S extends { readonly words: readonly (infer W)[] }
        ? W
        : string;

/** The settings of one program, under their names in the environment; using one that the table doesn't give it fails to compile. */
export type Settings<R extends Reader> = {
  readonly [N in SettingName as R extends Table[N]["readers"][number] ? N : never]: ValueOf<Table[N]>;
};

/** A sentence for the operator: the program stops with it and shows no stack. */
export class SettingError extends Error {
  override readonly name = "SettingError";
}

type Environment = { readonly [name: string]: string | undefined };

/** Typed settings of one program; throws one sentence that names every variable which is unknown, missing or out of range. */
export function readSettings<R extends Reader>(reader: R, env: Environment): Settings<R> {
  const problems = unknownNames(env);
  const values: Record<string, unknown> = {};
  for (const [name, setting] of Object.entries<Setting>(SETTINGS)) {
    if (!setting.readers.includes(reader)) continue;
    // An empty variable counts as unset: that is what a chart's empty value and `NAME= command` mean.
    const text = env[name] === undefined || env[name] === "" ? setting.default : env[name];
    if (text === null) {
      problems.push(`${name} is not set: ${setting.doc}`);
      continue;
    }
    const read = parse(setting, text.trim());
    if (read.problem === null) values[name] = read.value;
    else problems.push(`${name} ${read.problem}${setting.secret ? "" : `, not "${text}"`}.`);
  }
  if (values["NODE_ENV"] === "production" && values["CAURI_LIVE_RAILS"] === "simulator") {
    problems.push("CAURI_LIVE_RAILS=simulator is for local use: NODE_ENV=production refuses it.");
  }
  if (problems.length > 0) throw new SettingError(problems.join("\n"));
  return values as Settings<R>;
}

/** The page `docs/settings.md`. */
export function settingsPage(): string {
  const rows = Object.entries<Setting>(SETTINGS).map(([name, setting]) => {
    const usual = setting.default === null ? "must be set" : setting.default === "" ? "none" : `\`${setting.default}\``;
    const cells = [`\`${name}\``, setting.unit ?? setting.kind, usual, rangeOf(setting), setting.readers.join(", ")];
    return `| ${cells.join(" | ")} | ${setting.doc}${setting.secret ? " (secret)" : ""} |`;
  });
  return [
    "# Settings",
    "",
    "Written from `packages/rpc/src/settings-table.ts` by `node packages/rpc/src/settings-page.ts`; a test compares the two.",
    "Every setting is an environment variable. A `CAURI_` variable that isn't here, or a value out of range, stops the boot",
    "with its name. `npm start` sets what must be set.",
    "",
    "| Name | Unit | Default | Range | Read by | Meaning |",
    "|---|---|---|---|---|---|",
    ...rows,
    "",
  ].join("\n");
}

/** Names of the house that no line of the table knows: most often a typing error that would silently do nothing. */
function unknownNames(env: Environment): string[] {
  return Object.keys(env)
    .filter((name) => name.startsWith("CAURI_") && !Object.hasOwn(SETTINGS, name))
    .map((name) => `${name} is not a setting of Cauri: see docs/settings.md.`);
}

type Parsed = { readonly problem: null; readonly value: unknown } | { readonly problem: string };

function parse(setting: Setting, text: string): Parsed {
  switch (setting.kind) {
    case "text":
      return { problem: null, value: text };
    case "url":
      return text === "" || text.split(",").every((part) => isUrl(part, setting.schemes))
        ? { problem: null, value: text }
        : { problem: `must be a URL${setting.schemes === undefined ? "" : ` of ${setting.schemes.join(", ")}`}` };
    case "networks":
      return text === "" || text.split(",").every((part) => isNetwork(part.trim()))
        ? { problem: null, value: text }
        : { problem: "must be networks such as 10.0.0.0/8 or ::1, separated by commas" };
    case "file":
      return text === "" || isReadable(text) ? { problem: null, value: text } : { problem: "must be a file to read" };
    case "flag":
      return text === "on" || text === "off"
        ? { problem: null, value: text === "on" }
        : { problem: "must be on or off" };
    case "choice":
      return setting.words?.includes(text)
        ? { problem: null, value: text }
        : { problem: `must be one of ${(setting.words ?? []).map((word) => word || "(empty)").join(", ")}` };
    case "number": {
      const value = wholeNumber(setting, text);
      return value === null ? { problem: `must be a whole number ${rangeOf(setting)}` } : { problem: null, value };
    }
    case "numbers": {
      const values = text.split(",").map((part) => wholeNumber(setting, part.trim()));
      return values.includes(null)
        ? { problem: `must be whole numbers ${rangeOf(setting)}, separated by commas` }
        : { problem: null, value: values };
    }
  }
}

function isUrl(text: string, schemes: readonly string[] | undefined): boolean {
  const url = URL.parse(text.trim());
  return url !== null && (schemes === undefined || schemes.includes(url.protocol.slice(0, -1)));
}

/** An address, or one with the length of its prefix. */
function isNetwork(text: string): boolean {
  const [address = "", bits, ...more] = text.split("/");
  const longest = { 4: 32, 6: 128 }[isIP(address)];
  if (longest === undefined || more.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= longest);
}

function isReadable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

function wholeNumber(setting: Setting, text: string): number | null {
  if (!/^\d{1,15}$/.test(text)) return null;
  const value = Number(text);
  return value >= (setting.min ?? 0) && value <= (setting.max ?? Number.MAX_SAFE_INTEGER) ? value : null;
}

function rangeOf(setting: Setting): string {
  if (setting.words !== undefined) return setting.words.map((word) => `\`${word}\``).join(" ");
  if (setting.kind === "flag") return "`on` `off`";
  if (setting.min === undefined) return "";
  return `${setting.min} to ${setting.max}`;
}

export type { Reader };
