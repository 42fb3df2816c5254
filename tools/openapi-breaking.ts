// What a change of the public description breaks for a client that was generated from the one before: something it calls
// is gone, something it sends is refused, something it reads is missing or of another type. Pure; docs/decisions/0087
// says what counts and what does not.

type Node = { readonly [key: string]: unknown };
type Document = Node;
/** What a client sends may only become wider, what it reads only narrower. */
type Way = "sent" | "read";

const VERBS = ["get", "post", "put", "patch", "delete"];
/** Lower bounds that may not rise and upper bounds that may not fall in what is sent. */
const LEAST = ["minimum", "minLength", "minItems", "minProperties"];
const MOST = ["maximum", "maxLength", "maxItems", "maxProperties"];
/** A message that holds itself ends here. */
const DEEPEST = 20;

/** One sentence per break, in the order of the paths. */
export function breakingChanges(before: Document, after: Document): string[] {
  const breaks: string[] = [];
  const comparison = new Comparison(before, after, breaks);
  for (const [path, verbs] of entries(before["paths"])) {
    for (const verb of VERBS) {
      const old = verbs[verb] as Node | undefined;
      if (old === undefined) continue;
      const name = `${verb.toUpperCase()} ${path}`;
      const now = at(after, "paths", path, verb);
      if (now === undefined) breaks.push(`${name} is gone`);
      else comparison.operation(name, old, now);
    }
  }
  for (const [event, { post }] of entries(before["webhooks"])) {
    const now = at(after, "webhooks", event, "post");
    if (now === undefined) breaks.push(`the event ${event} is gone`);
    else comparison.body(`event ${event}`, at(post, "requestBody"), at(now, "requestBody"), "read");
  }
  return [...new Set(breaks)];
}

class Comparison {
  readonly #before: Document;
  readonly #after: Document;
  readonly #breaks: string[];
  constructor(before: Document, after: Document, breaks: string[]) {
    this.#before = before;
    this.#after = after;
    this.#breaks = breaks;
  }

  operation(name: string, old: Node, now: Node): void {
    if (old["operationId"] !== now["operationId"]) {
      this.#say(`${name} was called ${old["operationId"]} and is called ${now["operationId"]}`);
    }
    this.#parameters(name, old, now);
    const [old_body, now_body] = [at(old, "requestBody"), at(now, "requestBody")];
    if (now_body?.["required"] === true && old_body?.["required"] !== true) this.#say(`${name} asks for a body`);
    if (old_body !== undefined) this.body(`${name} body`, old_body, now_body, "sent");
    for (const [status, told] of entries(old["responses"])) {
      // A refusal that does not come any more breaks nobody.
      if (!status.startsWith("2")) continue;
      const answer = at(now, "responses", status);
      if (answer === undefined) {
        this.#say(`${name} does not answer ${status} any more`);
        continue;
      }
      for (const [header] of entries(told["headers"])) {
        if (at(answer, "headers", header) === undefined) this.#say(`${name} ${status} lacks the header ${header}`);
      }
      this.body(`${name} ${status}`, told, answer, "read");
    }
  }

  body(name: string, old: Node | undefined, now: Node | undefined, way: Way): void {
    const [one, other] = [old, now].map((body) => at(body, "content", "application/json", "schema"));
    if (one !== undefined && other === undefined) this.#say(`${name} has no JSON any more`);
    if (one !== undefined && other !== undefined) this.#schema(name, one, other, way, 0);
  }

  #parameters(name: string, old: Node, now: Node): void {
    const [old_ones, now_ones] = [parametersOf(this.#before, old), parametersOf(this.#after, now)];
    for (const [key, parameter] of old_ones) {
      const other = now_ones.get(key);
      if (other === undefined) this.#say(`${name} does not take ${key} any more`);
      else this.#schema(`${name} ${key}`, parameter["schema"] as Node, other["schema"] as Node, "sent", 0);
    }
    for (const [key, { required }] of now_ones) {
      if (required === true && old_ones.get(key)?.["required"] !== true) this.#say(`${name} asks for ${key}`);
    }
  }

  #schema(name: string, old_node: Node, now_node: Node, way: Way, depth: number): void {
    if (depth > DEEPEST) return;
    const old = plain(this.#before, old_node);
    const now = plain(this.#after, now_node);
    const [narrow, wide] = way === "sent" ? [old.types, now.types] : [now.types, old.types];
    const lost = wide.length === 0 ? [] : narrow.filter((type) => !wide.includes(type));
    if (lost.length > 0 || (narrow.length === 0 && wide.length > 0)) {
      this.#say(`${name} ${way === "sent" ? "does not take" : "may now be"} ${lost.join(" or ") || "anything"}`);
    }
    if (old.schema["format"] !== now.schema["format"] && (way === "read" || now.schema["format"] !== undefined)) {
      this.#say(`${name} changed its format`);
    }
    if (way === "sent") this.#bounds(name, old.schema, now.schema);
    this.#properties(name, old, now, way, depth);
    for (const inner of ["items", "additionalProperties"]) {
      const [one, other] = [old.schema[inner], now.schema[inner]];
      if (isNode(one) && isNode(other)) this.#schema(`${name}[]`, one, other, way, depth + 1);
    }
  }

  #bounds(name: string, old: Node, now: Node): void {
    const rose = (key: string) => now[key] !== undefined && Number(now[key]) > Number(old[key] ?? -Infinity);
    const fell = (key: string) => now[key] !== undefined && Number(now[key]) < Number(old[key] ?? Infinity);
    for (const key of LEAST) if (rose(key)) this.#say(`${name} has a higher ${key}`);
    for (const key of MOST) if (fell(key)) this.#say(`${name} has a lower ${key}`);
    if (now["pattern"] !== undefined && now["pattern"] !== old["pattern"]) this.#say(`${name} changed its pattern`);
    const words = now["enum"] as unknown[] | undefined;
    const gone =
      words === undefined ? [] : ((old["enum"] as unknown[]) ?? ["any text"]).filter((w) => !words.includes(w));
    if (gone.length > 0) this.#say(`${name} does not take ${gone.join(", ")} any more`);
  }

  #properties(name: string, old: Plain, now: Plain, way: Way, depth: number): void {
    for (const [field, schema] of Object.entries(old.properties)) {
      const other = now.properties[field];
      if (other === undefined) this.#say(`${name}: ${field} is gone`);
      else this.#schema(`${name}: ${field}`, schema, other, way, depth + 1);
    }
    if (way === "sent") {
      for (const field of now.required) if (!old.required.includes(field)) this.#say(`${name} asks for ${field}`);
      return;
    }
    for (const field of old.required) {
      const stays = now.properties[field] !== undefined;
      if (stays && !now.required.includes(field)) this.#say(`${name}: ${field} may be missing`);
    }
  }

  #say(sentence: string): void {
    this.#breaks.push(sentence);
  }
}

type Plain = {
  readonly schema: Node;
  readonly types: readonly string[];
  readonly properties: { readonly [name: string]: Node };
  readonly required: readonly string[];
};

/** A schema with its references, `anyOf [X, null]` and `allOf` written out. */
function plain(document: Document, node: Node): Plain {
  const schema = resolve(document, node);
  const any = (schema["anyOf"] as Node[] | undefined)?.map((one) => plain(document, one));
  const all = (schema["allOf"] as Node[] | undefined)?.map((one) => plain(document, one));
  const parts = any ?? all ?? [];
  const words = schema["const"] === undefined ? {} : { enum: [schema["const"]] };
  return {
    schema: Object.assign({}, ...parts.map((part) => part.schema), schema, words),
    types: [...new Set([...parts.flatMap(({ types }) => types), ...([schema["type"] ?? []].flat() as string[])])],
    properties: Object.assign({}, ...parts.map((part) => part.properties), schema["properties"]),
    required: [...parts.flatMap(({ required }) => required), ...((schema["required"] as string[]) ?? [])],
  };
}

function parametersOf(document: Document, operation: Node): Map<string, Node> {
  const parameters = ((operation["parameters"] as Node[]) ?? []).map((parameter) => resolve(document, parameter));
  return new Map(parameters.map((parameter) => [`${parameter["in"]} ${parameter["name"]}`, parameter]));
}

function resolve(document: Document, node: Node): Node {
  const reference = node["$ref"];
  if (typeof reference !== "string") return node;
  return resolve(document, at(document, ...reference.slice(2).split("/")) ?? {});
}

function entries(node: unknown): [string, { readonly [key: string]: Node }][] {
  return Object.entries((node ?? {}) as { [name: string]: { [key: string]: Node } });
}

function at(node: unknown, ...path: string[]): Node | undefined {
  let found: unknown = node;
  for (const part of path) found = isNode(found) ? found[part] : undefined;
  return isNode(found) ? found : undefined;
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
