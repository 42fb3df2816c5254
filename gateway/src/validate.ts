// The validator: schemas compiled once at boot, and its first complaint told as a sentence that names the field.

import { parseTimestamp } from "@cauri/rpc/json-form";
import { Ajv, type ErrorObject, type ValidateFunction } from "ajv";
import addFormats from "ajv-formats";
import { InexactNumber } from "./body.ts";
import { type EdgeRefusal, edgeRefusal } from "./reasons.ts";
import type { Schema } from "./schema.ts";

/** Undefined where the value fits. */
export type Validate = (value: unknown) => EdgeRefusal | undefined;

/** The longest piece of a client's own key that a message repeats. */
const LONGEST_ECHO = 60;

const FORMAT_SENTENCES: Record<string, string> = {
  email: "must be an e-mail address",
  https_url: "must be an absolute https:// URL",
  uri: "must be an absolute URL",
  "date-time": "must be an RFC 3339 time such as 2026-11-20T18:53:00.000Z",
  base64: "must be standard base64",
};

const TYPE_SENTENCES: Record<string, string> = {
  integer: "must be a whole number, written in digits alone",
  number: "must be a number",
  string: "must be a text",
  boolean: "must be true or false",
  array: "must be a list",
  object: "must be an object",
};

export function createValidator(): { compile: (schema: Schema) => Validate } {
  // `verbose` hands the value over with the error: the sentence about a number needs its token.
  const ajv = new Ajv({ coerceTypes: false, allErrors: false, strict: true, strictTypes: false, verbose: true });
  addFormats.default(ajv, ["uri", "email"]);
  ajv.addFormat("https_url", isHttpsUrl);
  ajv.addFormat("date-time", (text: string) => parseTimestamp(text) !== null);
  ajv.addFormat("base64", /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/);
  return { compile: (schema) => sentenceFor(ajv.compile(schema)) };
}

function isHttpsUrl(text: string): boolean {
  if (!/^https:\/\/[^\s/]/i.test(text)) return false;
  return URL.canParse(text) && !/\s/.test(text);
}

function sentenceFor(check: ValidateFunction): Validate {
  return (value) => {
    if (check(value)) return undefined;
    const [first] = check.errors ?? [];
    if (first === undefined) throw new Error("the validator refused without an error");
    const { field, message } = explain(first);
    return edgeRefusal("invalid_request", message, { field });
  };
}

function explain(error: ErrorObject): { field: string; message: string } {
  const path = pathOf(error.instancePath);
  const { params } = error;
  switch (error.keyword) {
    case "required":
      return { field: join(path, String(params["missingProperty"])), message: "is required" };
    case "type":
      return { field: path || "body", message: typeSentence(String(params["type"]), error.data) };
    case "enum":
      return { field: path, message: `must be one of ${(params["allowedValues"] as unknown[]).join(", ")}` };
    case "format":
      return { field: path, message: FORMAT_SENTENCES[String(params["format"])] ?? "has the wrong form" };
    case "pattern":
      return {
        field: path,
        message: `must have the form ${String(params["pattern"]).replace(/^\^\(\?:(.*)\)\$$/, "$1")}`,
      };
    default:
      return { field: keyPath(path, error), message: boundSentence(error) };
  }
}

function typeSentence(type: string, data: unknown): string {
  // A whole number can only have got here as an inexact one by being larger than any number we can hold.
  if (type === "integer" && data instanceof InexactNumber && /^-?\d+$/.test(data.source)) {
    return data.source.startsWith("-") ? "is too small" : `must be at most ${Number.MAX_SAFE_INTEGER}`;
  }
  return TYPE_SENTENCES[type] ?? "has the wrong type";
}

function boundSentence({ keyword, params, propertyName }: ErrorObject): string {
  const limit = String(params["limit"]);
  const of_key = propertyName === undefined ? "" : "the key ";
  switch (keyword) {
    case "minimum":
      return `must be at least ${limit}`;
    case "maximum":
      return `must be at most ${limit}`;
    case "minLength":
      return limit === "1" ? `${of_key}must not be empty` : `${of_key}must have at least ${limit} characters`;
    case "maxLength":
      return `${of_key}must have at most ${limit} characters`;
    case "minItems":
      return `must have at least ${limit} items`;
    case "maxItems":
      return `must have at most ${limit} items`;
    case "maxProperties":
      return `must have at most ${limit} keys`;
    default:
      return "is not acceptable";
  }
}

function keyPath(path: string, { propertyName }: ErrorObject): string {
  return propertyName === undefined ? path : join(path, echo(propertyName));
}

/** `/items/1/name` becomes `items.1.name`. */
function pathOf(pointer: string): string {
  if (pointer === "") return "";
  return pointer
    .slice(1)
    .split("/")
    .map((part) => echo(part.replaceAll("~1", "/").replaceAll("~0", "~")))
    .join(".");
}

function join(path: string, name: string): string {
  return path === "" ? name : `${path}.${name}`;
}

function echo(text: string): string {
  const characters = [...text];
  return characters.length <= LONGEST_ECHO ? text : `${characters.slice(0, LONGEST_ECHO).join("")}…`;
}
