// The interface description, for programs and for people: /v1/openapi.json with a key, the same document without one
// under /docs, and a page that shows it. Nothing is fetched from anywhere else, and no script runs.

import type { FastifyInstance } from "fastify";
import { Html, html, sendPage } from "./html.ts";

type Schema = { readonly [key: string]: unknown };
type Operation = {
  readonly operationId: string;
  readonly summary: string;
  readonly description: string;
  readonly tags: readonly string[];
  readonly parameters?: readonly Schema[];
  readonly requestBody?: { readonly content: { readonly [type: string]: { readonly schema: Schema } } };
  readonly responses: { readonly [status: string]: Schema };
};
type Document = {
  readonly info: { readonly title: string; readonly description: string };
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly paths: { readonly [path: string]: { readonly [verb: string]: Operation } };
  readonly components: {
    readonly schemas: { readonly [name: string]: Schema };
    readonly responses: { readonly [name: string]: Schema };
  };
};

export function mountDocs(app: FastifyInstance, document: object): void {
  const json = JSON.stringify(document);
  const main = docsPage(document as Document);
  for (const url of ["/v1/openapi.json", "/docs/openapi.json"]) {
    app.get(url, async (_request, reply) => reply.type("application/json; charset=utf-8").send(json));
  }
  app.get("/docs", async (_request, reply) => sendPage(reply, { title: "Cauri API", main }));
}

function docsPage({ info, tags, paths, components }: Document): Html {
  return html`<h1>${info.title} API</h1>
${paragraphs(info.description)}
<p><a href="/docs/openapi.json">openapi.json</a> is the same text for programs.</p>
${tags.map((tag) => html`<h2>${tag.name}</h2>${paragraphs(tag.description)}${operationsOf(paths, components.responses, tag.name)}`)}
<h2>Shapes</h2>${Object.entries(components.schemas).map(([name, schema]) => shape(name, schema))}`;
}

type Answers = Document["components"]["responses"];

function operationsOf(paths: Document["paths"], shared: Answers, tag: string): Html[] {
  return Object.entries(paths).flatMap(([path, verbs]) =>
    Object.entries(verbs)
      .filter(([, operation]) => operation.tags.includes(tag))
      .map(([verb, operation]) => operationHtml(`${verb.toUpperCase()} ${path}`, operation, shared)),
  );
}

function operationHtml(place: string, operation: Operation, shared: Answers): Html {
  const [verb = "", path = ""] = place.split(" ");
  const body = operation.requestBody?.content["application/json"]?.schema;
  const parameters = (operation.parameters ?? []).filter((parameter) => "name" in parameter);
  return html`<details id="${operation.operationId}"><summary><span class="verb">${verb}</span> <code>${path}</code> ${operation.summary}</summary>
${paragraphs(operation.description)}
${parameters.length > 0 ? html`<h3>Parameters</h3>${rows(parameters.map((parameter) => [String(parameter["name"]), `${parameter["in"]}: ${parameter["description"]}`]))}` : new Html("")}
${body === undefined ? new Html("") : html`<h3>Body</h3><p>${typeOf(body)}</p>`}
<h3>Answers</h3>${rows(Object.entries(operation.responses).map(([status, answer]) => [status, answerText(answer, shared)]))}</details>`;
}

function answerText(told: Schema, shared: Answers): string {
  const answer = shared[referenceOf(told) ?? ""] ?? told;
  const content = answer["content"] as { [type: string]: { schema: Schema } } | undefined;
  const schema = content?.["application/json"]?.schema;
  const name = schema === undefined || "allOf" in schema ? "" : ` ${textOf(schema)}`;
  return `${String(answer["description"])}${name}`;
}

function shape(name: string, schema: Schema): Html {
  const properties = Object.entries((schema["properties"] ?? {}) as { [name: string]: Schema });
  const required = (schema["required"] ?? []) as readonly string[];
  return html`<details id="shape-${name}"><summary><code>${name}</code></summary>${paragraphs(String(schema["description"] ?? ""))}
<div class="table"><table><tbody>${properties.map(
    ([
      field,
      value,
    ]) => html`<tr><th scope="row"><code>${field}</code></th><td>${typeOf(value)}${required.includes(field) ? "" : ", optional"}</td>
<td>${paragraphs(`${value["description"] ?? ""}${boundsOf(value)}`)}</td></tr>`,
  )}</tbody></table></div></details>`;
}

/** The type of a schema, with a link where it is a shape of its own. */
function typeOf(schema: Schema): Html {
  const target = referenceOf(schema);
  return target === undefined ? html`${textOf(schema)}` : html`<a href="#shape-${target}">${textOf(schema)}</a>`;
}

function referenceOf(schema: Schema): string | undefined {
  const inner = [schema, ...((schema["anyOf"] ?? []) as Schema[]), (schema["items"] ?? {}) as Schema];
  const reference = inner.map((one) => one["$ref"]).find((one) => typeof one === "string");
  return reference?.split("/").at(-1);
}

function textOf(schema: Schema): string {
  if (typeof schema["$ref"] === "string") return schema["$ref"].split("/").at(-1) ?? "";
  if (Array.isArray(schema["anyOf"])) return (schema["anyOf"] as Schema[]).map(textOf).join(" or ");
  if (schema["type"] === "array") return `list of ${textOf(schema["items"] as Schema)}`;
  return [schema["type"]].flat().join(" or ");
}

function boundsOf(schema: Schema): string {
  const told = ["minimum", "maximum", "minLength", "maxLength", "pattern", "default"].flatMap((keyword) =>
    schema[keyword] === undefined ? [] : [`${keyword} ${String(schema[keyword])}`],
  );
  const [example] = (schema["examples"] ?? []) as unknown[];
  if (example !== undefined) told.push(`for example ${JSON.stringify(example)}`);
  return told.length === 0 ? "" : ` (${told.join(", ")})`;
}

function rows(pairs: readonly (readonly [string, string])[]): Html {
  return html`<div class="table"><table><tbody>${pairs.map(
    ([name, text]) => html`<tr><th scope="row"><code>${name}</code></th><td>${paragraphs(text)}</td></tr>`,
  )}</tbody></table></div>`;
}

/** The little Markdown that our comments use: paragraphs, lists, `code` and **bold**. */
function paragraphs(text: string): Html[] {
  return text
    .split(/\n{2,}/)
    .filter((block) => block.trim() !== "")
    .map((block) =>
      block.startsWith("- ")
        ? html`<ul>${block.split("\n").map((line) => html`<li>${inline(line.slice(2))}</li>`)}</ul>`
        : html`<p>${inline(block)}</p>`,
    );
}

function inline(text: string): Html[] {
  return text.split(/(`[^`]*`|\*\*[^*]*\*\*)/).map((piece) => {
    if (piece.startsWith("`")) return html`<code>${piece.slice(1, -1)}</code>`;
    if (piece.startsWith("**")) return html`<strong>${piece.slice(2, -2)}</strong>`;
    return html`${piece}`;
  });
}
