// Requests for the fuzzer, made from the public description: right ones, ones wrong in one place or in many, and texts
// that have broken other gateways. Whether the description refuses a request is decided apart, in fuzz-verdict.ts.

import fc from "fast-check";

export type Node = { readonly [key: string]: unknown };
export type Operation = { readonly name: string; readonly verb: string; readonly path: string; readonly told: Node };
export type Request = {
  readonly params: { readonly [place_and_name: string]: string };
  /** Undefined where the operation takes none. */
  readonly body: unknown;
};

/** Control and format characters, lone surrogates, prototype keys, traversal, quotes, dates that are none. */
const NASTY = [
  "",
  " ",
  "\0",
  "a\0b",
  "\ud800",
  "\udfff",
  "\u202e",
  "\ufeff",
  "'",
  '"',
  "\\",
  "--",
  "{{7*7}}",
  "%00",
  "..",
  "../..",
  "__proto__",
  "constructor",
  "null",
  "NaN",
  "0",
  "-1",
  "1e309",
  "2026-02-30T00:00:00Z",
  "9".repeat(40),
  "é".repeat(300),
];
const NUMBERS = [0, -0, -1, 1, 1.5, 2 ** 31, 2 ** 31 - 1, 2 ** 53 - 1, 2 ** 53, -(2 ** 53), 1e21, 1e-7, 1e308];

const nastyText = fc.oneof(fc.constantFrom(...NASTY), fc.string({ unit: "binary", maxLength: 80 }), fc.string());
const anything = fc.oneof(
  nastyText,
  fc.constantFrom(...NUMBERS),
  fc.integer(),
  fc.double(),
  fc.constantFrom(null, true),
  fc.json().map((text) => JSON.parse(text)),
  fc.constant([]),
  fc.constant({}),
);

export function operationsOf(document: Node): Operation[] {
  const verbs = ["get", "post", "put", "patch", "delete"];
  const all = Object.entries(document["paths"] as { [path: string]: Node }).flatMap(([path, told]) =>
    verbs
      .filter((verb) => told[verb] !== undefined)
      .map((verb) => ({
        name: `${verb.toUpperCase()} ${path}`,
        verb: verb.toUpperCase(),
        path,
        told: told[verb] as Node,
      })),
  );
  // What is deleted could not be read any more.
  return all.sort((one, other) => Number(one.verb === "DELETE") - Number(other.verb === "DELETE"));
}

/** `known` are ids that exist, so that not every path ends at 404. */
export function requestsOf(document: Node, { told }: Operation, known: readonly string[]): fc.Arbitrary<Request> {
  const params: { [name: string]: fc.Arbitrary<string> } = {};
  const optional: string[] = [];
  for (const one of (told["parameters"] ?? []) as Node[]) {
    const parameter = resolve(document, one);
    const key = `${parameter["in"]} ${parameter["name"]}`;
    const right = valuesOf(document, parameter["schema"] as Node).map((value) => String(value));
    const ids = parameter["in"] === "path" && known.length > 0 ? [fc.constantFrom(...known)] : [];
    params[key] = fc.oneof(right, ...ids, nastyText);
    if (parameter["in"] !== "path") optional.push(key);
  }
  const required = Object.keys(params).filter((key) => !optional.includes(key));
  const schema = schemaOfBody(told);
  return fc.record({
    params: fc.record(params, { requiredKeys: required }) as fc.Arbitrary<Request["params"]>,
    body: schema === undefined ? fc.constant(undefined) : bodies(document, schema),
  });
}

export function schemaOfBody(told: Node): Node | undefined {
  const body = told["requestBody"] as { content: { [type: string]: { schema: Node } } } | undefined;
  return body?.content["application/json"]?.schema;
}

/** Right in everything, wrong in one field, or whatever comes. */
function bodies(document: Node, schema: Node): fc.Arbitrary<unknown> {
  const right = valuesOf(document, schema);
  const { properties = {} } = resolve(document, schema) as { properties?: { [name: string]: Node } };
  const names = Object.keys(properties);
  const spoiled = fc
    .tuple(right, fc.constantFrom(...names, "__proto__", "constructor", "unknown"), anything)
    .map(([value, name, wrong]) => ({ ...(value as object), [name]: wrong }));
  return fc.oneof(
    { arbitrary: right, weight: 3 },
    { arbitrary: spoiled, weight: 5 },
    { arbitrary: anything, weight: 1 },
  );
}

/** Values that mostly fit: bounds and patterns of a text are met by its example, not by search. */
function valuesOf(document: Node, node: Node): fc.Arbitrary<unknown> {
  const schema = resolve(document, node);
  const choices = (schema["anyOf"] ?? schema["allOf"]) as Node[] | undefined;
  if (choices !== undefined) return fc.oneof(...choices.map((one) => valuesOf(document, one)));
  const examples = (schema["examples"] as unknown[] | undefined) ?? [];
  const shown = examples.length > 0 ? [{ arbitrary: fc.constantFrom(...examples), weight: 4 }] : [];
  const types = [schema["type"]].flat() as string[];
  return fc.oneof(...shown, ...types.map((type) => ({ arbitrary: typed(document, schema, type), weight: 1 })));
}

function typed(document: Node, schema: Node, type: string): fc.Arbitrary<unknown> {
  const bound = (name: string, otherwise: number) => Number(schema[name] ?? otherwise);
  switch (type) {
    case "null":
      return fc.constant(null);
    case "boolean":
      return fc.boolean();
    case "integer":
      return fc.maxSafeInteger().map((n) => Math.min(Math.max(n, bound("minimum", n)), bound("maximum", n)));
    case "array":
      return fc.array(valuesOf(document, schema["items"] as Node), { maxLength: 5 });
    case "object":
      return objects(document, schema);
    default:
      return Array.isArray(schema["enum"])
        ? fc.constantFrom(...schema["enum"])
        : fc.string({
            unit: "grapheme",
            minLength: bound("minLength", 0),
            maxLength: Math.min(bound("maxLength", 40), 300),
          });
  }
}

function objects(document: Node, schema: Node): fc.Arbitrary<unknown> {
  const properties = (schema["properties"] ?? {}) as { [name: string]: Node };
  if (Object.keys(properties).length === 0) {
    return fc.dictionary(fc.string({ minLength: 1, maxLength: 45 }), fc.string({ maxLength: 510 }), { maxKeys: 21 });
  }
  const fields = Object.fromEntries(Object.entries(properties).map(([name, one]) => [name, valuesOf(document, one)]));
  return fc.record(fields, { requiredKeys: (schema["required"] as string[] | undefined) ?? [] });
}

export function resolve(document: Node, node: Node): Node {
  const reference = node["$ref"];
  if (typeof reference !== "string") return node;
  let at: unknown = document;
  for (const part of reference.slice(2).split("/")) at = (at as Node)[part];
  return resolve(document, at as Node);
}
