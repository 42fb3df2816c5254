// From the bytes of a body to the fields we know: UTF-8, JSON with its number tokens intact, unknown fields and nulls
// dropped, texts that no database and no peer could hold refused by name. What comes out has yet to meet its schema.

import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { isInternal, isTimestamp, unwrapped } from "@cauri/rpc/json-form";
import { type EdgeRefusal, edgeRefusal } from "./reasons.ts";

/**
 * A number whose token is not a plain integer that a JSON number can hold: `1.5`, `1e3`, `100.0`, `9007199254740993`.
 * JSON.parse would round some of them to integers, so the token is kept and an integer field refuses it.
 */
export class InexactNumber {
  readonly source: string;
  constructor(source: string) {
    this.source = source;
  }
}

type Context = { readonly source?: string };
type Parse = (text: string, reviver?: (key: string, value: unknown, context: Context) => unknown) => unknown;
const parseJson = JSON.parse as Parse;

/** Only a text with one of these can hold an inexact number; the others, nearly all, are parsed without a reviver. */
const SUSPICIOUS = /\d[.eE]|\d{16}/;
const PLAIN_INTEGER = /^-?(?:0|[1-9]\d*)$/;
/** Stands for bytes that are no UTF-8: a lone surrogate, which no well-formed text contains. */
const INVALID = "\udc80";

const strict = new TextDecoder("utf-8", { fatal: true });
const lenient = new TextDecoder("utf-8");

/** The JSON value, or a refusal where there is none. An empty body is an empty object. */
export function parseBody(bytes: Uint8Array): { json: unknown } | EdgeRefusal {
  const text = decode(bytes);
  if (text === "") return { json: {} };
  try {
    return { json: SUSPICIOUS.test(text) ? parseJson(text, keepToken) : parseJson(text) };
  } catch (cause) {
    // The reviver walks recursively; a body nested that deep is no request of ours.
    const nested = cause instanceof RangeError;
    return edgeRefusal("invalid_request", nested ? "is nested too deeply" : "is not valid JSON", { field: "body" });
  }
}

/** Invalid bytes become a lone surrogate: the field that holds them is then refused by its name. */
function decode(bytes: Uint8Array): string {
  try {
    return strict.decode(bytes);
  } catch {
    return lenient.decode(bytes).replaceAll("\ufffd", INVALID);
  }
}

function keepToken(_key: string, value: unknown, { source }: Context): unknown {
  if (typeof value !== "number" || source === undefined) return value;
  return PLAIN_INTEGER.test(source) && Number.isSafeInteger(value) ? value : new InexactNumber(source);
}

/** Keeps the known fields of `json`, or names the first text that cannot be accepted. */
export function projectBody(desc: DescMessage, json: unknown): { fields: Record<string, unknown> } | EdgeRefusal {
  if (!isObject(json)) return edgeRefusal("invalid_request", "must be a JSON object", { field: "body" });
  const bad: BadText[] = [];
  const fields = projectorOf(desc)(json, "", bad) as Record<string, unknown>;
  const [first] = bad;
  return first === undefined ? { fields } : edgeRefusal("invalid_request", first.message, { field: first.field });
}

/** What is wrong with a text, or undefined. */
export function textProblem(text: string): string | undefined {
  if (text.includes("\0")) return "must not contain the character NUL";
  return text.isWellFormed() ? undefined : "is not valid Unicode text";
}

type BadText = { readonly field: string; readonly message: string };
type Project = (value: unknown, path: string, bad: BadText[]) => unknown;

const projectors = new WeakMap<DescMessage, Project>();

function projectorOf(desc: DescMessage): Project {
  const known = projectors.get(desc);
  if (known !== undefined) return known;
  const only = unwrapped(desc);
  const fields: [string, Project][] = [];
  const project: Project =
    only === undefined ? (value, path, bad) => projectObject(fields, value, path, bad) : fieldProjector(only);
  projectors.set(desc, project);
  for (const field of desc.fields) if (!isInternal(field)) fields.push([field.name, fieldProjector(field)]);
  return project;
}

function projectObject(fields: readonly [string, Project][], value: unknown, path: string, bad: BadText[]): unknown {
  if (!isObject(value)) return noObject(value);
  const kept: Record<string, unknown> = {};
  for (const [name, project] of fields) {
    if (!Object.hasOwn(value, name)) continue;
    const item = value[name];
    if (item !== null) kept[name] = project(item, path === "" ? name : `${path}.${name}`, bad);
  }
  return kept;
}

/** The schema refuses it where an object belongs; a number's token, an object to it, would pass for one. */
function noObject(value: unknown): unknown {
  return value instanceof InexactNumber ? Number(value.source) : value;
}

function fieldProjector(field: DescField): Project {
  const project = valueProjector(field);
  if (field.fieldKind === "list") {
    return (value, path, bad) =>
      Array.isArray(value) ? value.map((item, index) => project(item, `${path}.${index}`, bad)) : value;
  }
  if (field.fieldKind === "map") return (value, path, bad) => projectMap(project, value, path, bad);
  return project;
}

function projectMap(project: Project, value: unknown, path: string, bad: BadText[]): unknown {
  if (!isObject(value)) return noObject(value);
  const kept: Record<string, unknown> = {};
  for (const [key, item] of Object.entries(value)) {
    // Assigning to `__proto__` would not make a key, and no store of ours could give it back.
    if (item === null || key === "__proto__") continue;
    const problem = textProblem(key);
    if (problem !== undefined) bad.push({ field: path, message: `a key ${problem}` });
    kept[key] = project(item, `${path}.${key}`, bad);
  }
  return kept;
}

function valueProjector(field: DescField): Project {
  const { message } = field;
  if (message !== undefined && !isTimestamp(message))
    return (value, path, bad) => projectorOf(message)(value, path, bad);
  if (field.scalar === ScalarType.DOUBLE || field.scalar === ScalarType.FLOAT) {
    return (value) => (value instanceof InexactNumber ? Number(value.source) : value);
  }
  return (value, path, bad) => {
    const problem = typeof value === "string" ? textProblem(value) : undefined;
    if (problem !== undefined) bad.push({ field: path, message: problem });
    return value;
  };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof InexactNumber);
}
