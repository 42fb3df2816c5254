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

/** What exists in the house that is fuzzed, so that requests get beyond "no such thing". */
export type Known = {
  /** Ids, references and client_refs by the collection in whose paths they stand: `payments`. */
  readonly ids: { readonly [collection: string]: readonly string[] };
  /** Values of body fields whose examples name nothing here: `destination_account_id`. */
  readonly fields: { readonly [name: string]: readonly string[] };
};
type World = { readonly document: Node; readonly known: Known };

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

export function requestsOf(document: Node, { told, path }: Operation, known: Known): fc.Arbitrary<Request> {
  const world = { document, known };
  const existing = known.ids[path.split("/")[2] ?? ""] ?? [];
  const params: { [name: string]: fc.Arbitrary<string> } = {};
  const optional: string[] = [];
  for (const one of (told["parameters"] ?? []) as Node[]) {
    const parameter = resolve(document, one);
    const key = `${parameter["in"]} ${parameter["name"]}`;
    const right = valuesOf(world, parameter["schema"] as Node).map((value) => String(value));
    const ids = parameter["in"] === "path" && existing.length > 0 ? [fc.constantFrom(...existing)] : [];
    params[key] = fc.oneof(right, ...ids, nastyText);
    if (parameter["in"] !== "path") optional.push(key);
  }
  const required = Object.keys(params).filter((key) => !optional.includes(key));
  const schema = schemaOfBody(told);
  return fc.record({
    params: fc.record(params, { requiredKeys: required }) as fc.Arbitrary<Request["params"]>,
    body: schema === undefined ? fc.constant(undefined) : bodies(world, schema),
  });
}

export function schemaOfBody(told: Node): Node | undefined {
  const body = told["requestBody"] as { content: { [type: string]: { schema: Node } } } | undefined;
  return body?.content["application/json"]?.schema;
}

/** Right in everything, wrong in one field, or whatever comes. */
function bodies(world: World, schema: Node): fc.Arbitrary<unknown> {
  const right = valuesOf(world, schema);
  const { properties = {} } = resolve(world.document, schema) as { properties?: { [name: string]: Node } };
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
function valuesOf(world: World, node: Node): fc.Arbitrary<unknown> {
  const schema = resolve(world.document, node);
  const choices = (schema["anyOf"] ?? schema["allOf"]) as Node[] | undefined;
  if (choices !== undefined) return fc.oneof(...choices.map((one) => valuesOf(world, one)));
  const examples = (schema["examples"] as unknown[] | undefined) ?? [];
  const shown = examples.length > 0 ? [{ arbitrary: fc.constantFrom(...examples), weight: 4 }] : [];
  const types = [schema["type"]].flat() as string[];
  return fc.oneof(...shown, ...types.map((type) => ({ arbitrary: typed(world, schema, type), weight: 1 })));
}

function typed(world: World, schema: Node, type: string): fc.Arbitrary<unknown> {
  const bound = (name: string, otherwise: number) => Number(schema[name] ?? otherwise);
  switch (type) {
    case "null":
      return fc.constant(null);
    case "boolean":
      return fc.boolean();
    case "integer":
      return fc.maxSafeInteger().map((n) => Math.min(Math.max(n, bound("minimum", n)), bound("maximum", n)));
    case "array":
      return fc.array(valuesOf(world, schema["items"] as Node), { maxLength: 5 });
    case "object":
      return objects(world, schema);
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

function objects(world: World, schema: Node): fc.Arbitrary<unknown> {
  const properties = (schema["properties"] ?? {}) as { [name: string]: Node };
  if (Object.keys(properties).length === 0) {
    return fc.dictionary(fc.string({ minLength: 1, maxLength: 45 }), fc.string({ maxLength: 510 }), { maxKeys: 21 });
  }
  const fields = Object.fromEntries(
    Object.entries(properties).map(([name, one]) => {
      const known = world.known.fields[name] ?? [];
      const existing = known.length > 0 ? [{ arbitrary: fc.constantFrom(...known), weight: 4 }] : [];
      return [name, fc.oneof(...existing, { arbitrary: valuesOf(world, one), weight: 1 })];
    }),
  );
  return fc.record(fields, { requiredKeys: (schema["required"] as string[] | undefined) ?? [] });
}

export function resolve(document: Node, node: Node): Node {
  const reference = node["$ref"];
  if (typeof reference !== "string") return node;
  let at: unknown = document;
  for (const part of reference.slice(2).split("/")) at = (at as Node)[part];
  return resolve(document, at as Node);
}
