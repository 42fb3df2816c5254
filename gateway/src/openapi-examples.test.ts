// The description is good enough to generate from: every field says what it is, in which unit and range, and shows an
// example; every example is what its schema describes.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { loadImage } from "./image.ts";
import { openApiDocument } from "./openapi.ts";
import { createValidator } from "./validate.ts";

type Node = { readonly [key: string]: unknown };
type Schema = Node & { readonly properties?: { readonly [name: string]: Schema } };
const document = openApiDocument(loadImage()) as Node & {
  readonly paths: { readonly [path: string]: { readonly [verb: string]: Node } };
  readonly components: { readonly schemas: { readonly [name: string]: Schema } };
};

/** Schemas that hold another or a fixed structure: their example is that of what they hold. */
const HOLDERS = ["$ref", "anyOf", "const"];
const UNITS: readonly (readonly [name: RegExp, unit: RegExp])[] = [
  [/_minor$/, /minor units|amount less fee/],
  [/_ms$/, /millisecond/],
  [/_s$/, /second/i],
  [/_bps$/, /basis points/],
];

test("openapi: every property of every shape has a description, an example, and its unit and range where it has one", () => {
  const problems: string[] = [];
  eachProperty((name, property) => {
    const { description, examples, properties } = property;
    const holds =
      HOLDERS.some((keyword) => keyword in property) || properties !== undefined || isListOfShapes(property);
    if (typeof description !== "string" || description === "") problems.push(`${name} has no description`);
    if (!holds && !(Array.isArray(examples) && examples.length > 0)) problems.push(`${name} has no example`);
    for (const [suffix, unit] of UNITS) {
      if (suffix.test(name) && !unit.test(String(description))) problems.push(`${name} does not say its unit`);
    }
    if (typesOf(property).includes("integer") && !("minimum" in property && "maximum" in property)) {
      problems.push(`${name} has no range`);
    }
  });
  assert.deepEqual(problems, []);
});

test("openapi: every text that is sent has a bound", () => {
  const problems: string[] = [];
  eachProperty((name, property) => {
    const bounds = ["maxLength", "enum", "format", "pattern"];
    const free = typesOf(property).includes("string") && !bounds.some((keyword) => keyword in property);
    if (/Request\./.test(name) && free) problems.push(name);
  });
  assert.deepEqual(problems, []);
});

test("openapi: every example is what its schema describes", () => {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  addFormats.default(ajv);
  ajv.addFormat("int64", true);
  // References inside the document resolve against the whole of it.
  ajv.addSchema(document as object, "doc:");
  const problems: string[] = [];
  let seen = 0;
  const check = (schema: unknown, example: unknown, at: string) => {
    seen += 1;
    const validate = ajv.compile(rooted(schema) as object);
    if (!validate(example)) problems.push(`${at}: ${ajv.errorsText(validate.errors)}`);
  };
  walk(document, "#", (node, at) => {
    const { schema, example, examples } = node;
    if (Array.isArray(examples)) for (const one of examples) check(node, one, at);
    if (schema === undefined) return;
    if (example !== undefined) check(schema, example, at);
    if (typeof examples === "object" && !Array.isArray(examples)) {
      for (const [name, { value }] of Object.entries((examples ?? {}) as { [name: string]: Node })) {
        check(schema, value, `${at}/${name}`);
      }
    }
  });
  assert.deepEqual(problems, []);
  assert.ok(seen > 200, `${seen} examples were found`);
});

test("openapi: every address that the edge takes is one that the description admits", () => {
  const ajv = new Ajv2020({ strict: false });
  addFormats.default(ajv);
  const told = document.components.schemas["CreatePaymentRequest"]?.properties?.["return_url"] ?? {};
  const admits = ajv.compile({ ...told, examples: undefined });
  const edge = createValidator().compile({ type: "string", format: "https_url" });
  const taken = [
    "https://example.com/merci-été",
    'https://example.com/a"b<c>|',
    "HTTPS://Example.com",
    "https://exämple.com",
  ];
  for (const url of taken) {
    assert.equal(edge(url), undefined, url);
    assert.ok(admits(url), url);
  }
  assert.ok(!admits("http://example.com"));
});

test("openapi: every body that is sent or answered shows an example, every success of a read and a creation too", () => {
  const problems: string[] = [];
  walk(document, "#", (node, at) => {
    const media = node["application/json"] as Node | undefined;
    if (media !== undefined && media["example"] === undefined && media["examples"] === undefined) problems.push(at);
  });
  assert.deepEqual(problems, []);
});

test("openapi: a route tells the codes that it can give and no others", () => {
  const codes = (path: string, verb: string) =>
    Object.values((document.paths[path]?.[verb]?.["responses"] ?? {}) as { [status: string]: Node })
      .map(
        ({ $ref }) =>
          String($ref ?? "")
            .split("/")
            .at(-1) ?? "",
      )
      .filter(Boolean);
  const create = codes("/v1/payments", "post");
  assert.ok(create.includes("409_already_exists_concurrent_request"), create.join());
  assert.ok(create.includes("502_upstream_error"));
  const endpoint = codes("/v1/webhooks", "post");
  assert.ok(endpoint.includes("409_concurrent_request"), endpoint.join());
  assert.ok(!endpoint.some((name) => name.startsWith("502")), "no rail is asked");
});

function eachProperty(visit: (name: string, property: Schema) => void): void {
  const into = (name: string, schema: Schema) => {
    for (const [field, property] of Object.entries(schema.properties ?? {})) {
      visit(`${name}.${field}`, property);
      into(`${name}.${field}`, property);
    }
  };
  for (const [name, schema] of Object.entries(document.components.schemas)) into(name, schema);
}

function typesOf(schema: Schema): unknown[] {
  return [schema["type"]].flat();
}

function isListOfShapes(schema: Schema): boolean {
  const items = schema["items"] as Node | undefined;
  return items !== undefined && "$ref" in items;
}

/** The schema with its references pointing into the document as it was added. */
function rooted(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(rooted);
  if (typeof node !== "object" || node === null) return node;
  return Object.fromEntries(
    Object.entries(node).map(([key, value]) =>
      key === "$ref" ? [key, `doc:${String(value)}`] : [key, key === "examples" ? undefined : rooted(value)],
    ),
  );
}

function walk(node: unknown, at: string, visit: (node: Node, at: string) => void): void {
  if (typeof node !== "object" || node === null) return;
  visit(node as Node, at);
  for (const [key, value] of Object.entries(node))
    if (key !== "example" && key !== "value") walk(value, `${at}/${key}`, visit);
}
