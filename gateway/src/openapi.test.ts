// The interface description: it is what git has, and it says something about everything.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { loadImage } from "./image.ts";
import { openApiDocument } from "./openapi.ts";
import { OPENAPI_FILE, openApiText } from "./openapi-write.ts";

type Node = { readonly [key: string]: unknown };
const document = openApiDocument(loadImage()) as {
  paths: { [path: string]: { [verb: string]: Node & { operationId: string; responses: { [status: string]: Node } } } };
  components: { schemas: { [name: string]: Node } };
};
const operations = Object.values(document.paths).flatMap((verbs) => Object.values(verbs));

test("openapi: gateway/openapi.json is up to date (else run `npm run generate` and look at the difference)", () => {
  assert.equal(readFileSync(OPENAPI_FILE, "utf8"), openApiText());
});

test("openapi: operation ids are unique, every operation tells 401, 403, 429, 500 and 503", () => {
  const ids = operations.map(({ operationId }) => operationId);
  assert.equal(new Set(ids).size, ids.length);
  for (const { operationId, responses } of operations) {
    for (const status of ["401", "403", "429", "500", "503"]) assert.ok(responses[status], `${operationId} ${status}`);
  }
});

test("openapi: every reference leads somewhere, every property is described", () => {
  const problems: string[] = [];
  walk(document, "#", (node, path) => {
    const reference = node["$ref"];
    if (typeof reference === "string" && !resolve(reference)) problems.push(`${path}: ${reference}`);
  });
  for (const [name, schema] of Object.entries(document.components.schemas)) {
    for (const [field, value] of Object.entries((schema["properties"] ?? {}) as { [name: string]: Node })) {
      if (typeof value["description"] !== "string") problems.push(`${name}.${field} has no description`);
    }
  }
  assert.deepEqual(problems, []);
});

test("openapi: only what can be null may be, an amount is never negative, no status that cannot come", () => {
  type Properties = { [name: string]: { type?: unknown; minimum?: number } };
  const payment = (document.components.schemas["Payment"]?.["properties"] ?? {}) as Properties;
  for (const name of ["created_at", "updated_at", "expires_at"]) assert.equal(payment[name]?.type, "string", name);
  assert.deepEqual(payment["completed_at"]?.type, ["string", "null"]);
  for (const name of ["amount_minor", "fee_minor", "net_minor"]) assert.equal(payment[name]?.minimum, 0, name);
  const read = document.paths["/v1/payments/{id}"]?.["get"]?.responses ?? {};
  assert.deepEqual(Object.keys(read), ["200", "401", "403", "404", "429", "500", "503"]);
  assert.ok(!JSON.stringify(resolved(read["401"]?.["$ref"])).includes("RateLimit"), "nobody is known yet");
});

test("openapi: nothing of the operators' door is told", () => {
  const text = JSON.stringify(document);
  for (const word of ["operator_refused", "AdvanceClock", "ResolveKey", "update_mask"])
    assert.ok(!text.includes(word), word);
});

function walk(node: unknown, path: string, visit: (node: Node, path: string) => void): void {
  if (typeof node !== "object" || node === null) return;
  visit(node as Node, path);
  for (const [key, value] of Object.entries(node)) walk(value, `${path}/${key}`, visit);
}

function resolve(reference: string): boolean {
  return resolved(reference) !== undefined;
}

function resolved(reference: unknown): unknown {
  let at: unknown = document;
  for (const part of String(reference).slice(2).split("/")) at = (at as Node | undefined)?.[part];
  return at;
}
