// What is wrong with an answer, by the public description alone: a 500, an undocumented status or code, an envelope or a
// body that is not as described, a header that is missing, or a success for a request that the description refuses.

import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { type Node, type Operation, type Request, resolve, schemaOfBody } from "./fuzz-requests.ts";

export type Answer = { readonly status: number; readonly headers: Headers; readonly text: string };
/** Every complaint as a sentence; none: the answer is right. */
export type Judge = (request: Request, answer: Answer) => string[];

export function judges(document: Node): (operation: Operation) => Judge {
  const ajv = new Ajv2020({ strict: false });
  addFormats.default(ajv);
  ajv.addFormat("int64", true);
  ajv.addSchema(document, "doc:");
  const compile = (schema: Node) => ajv.compile(rooted(schema) as object);
  return ({ told }) => {
    const body_schema = schemaOfBody(told);
    const body = body_schema === undefined ? undefined : compile(body_schema);
    const params = ((told["parameters"] ?? []) as Node[]).map((one) => {
      const { in: place, name, schema } = resolve(document, one);
      return { key: `${place} ${name}`, place, fits: compile(schema as Node), schema: schema as Node };
    });
    const answers = new Map(
      Object.entries(told["responses"] as { [status: string]: Node }).map(([status, one]) => {
        const { content } = resolve(document, one) as { content?: { "application/json": { schema: Node } } };
        return [Number(status), content === undefined ? undefined : compile(content["application/json"].schema)];
      }),
    );
    return (request, answer) => {
      const wrong = params.filter(({ key, place, fits, schema }) => {
        const value = request.params[key];
        // What a path names, and no one has, is 404 whatever its form.
        return value !== undefined && place !== "path" && !fits(typedLike(schema, value));
      });
      const refused =
        wrong.length > 0 || (body !== undefined && request.body !== undefined && !body(asSent(request.body)));
      return [
        ...complaints(answers, answer),
        ...(refused && answer.status < 400 ? ["it took what its schema refuses"] : []),
      ];
    };
  };
}

function complaints(answers: ReadonlyMap<number, ValidateFunction | undefined>, answer: Answer): string[] {
  const { status, headers, text } = answer;
  const found: string[] = [];
  if (status >= 500 && status !== 502 && status !== 503) found.push(`it answered ${status}`);
  if (!answers.has(status)) found.push(`its status ${status} is not documented`);
  if (!headers.has("x-request-id")) found.push("it has no X-Request-Id");
  if (!headers.has("ratelimit")) found.push("it has no RateLimit");
  if ((status === 429 || status === 503) && !/^[1-9]\d*$/.test(headers.get("retry-after") ?? "")) {
    found.push("it does not say when to come again");
  }
  const fits = answers.get(status);
  if (fits === undefined)
    return text === "" || found.length > 0 ? found : [...found, "it has a body where none is described"];
  if (headers.get("content-type") !== "application/json; charset=utf-8") found.push("it is not JSON");
  try {
    if (!fits(JSON.parse(text))) {
      const [error] = fits.errors ?? [];
      found.push(`it is not as described: ${error?.instancePath} ${error?.message}`);
    }
  } catch {
    found.push("it cannot be parsed");
  }
  return found;
}

/** JSON has no NaN and no -0: what the edge reads is what was written. */
function asSent(body: unknown): unknown {
  return JSON.parse(JSON.stringify(body));
}

/** A text of a query in its documented type, as the edge reads it. */
function typedLike(schema: Node, text: string): unknown {
  const types = [schema["type"]].flat();
  if (types.includes("integer") && /^-?\d+$/.test(text)) return Number(text);
  if (types.includes("boolean") && (text === "true" || text === "false")) return text === "true";
  return text;
}

/** Examples are no rules, and references lead into the whole document. */
function rooted(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(rooted);
  if (typeof node !== "object" || node === null) return node;
  const entries = Object.entries(node).filter(([key]) => key !== "examples" && key !== "example");
  return Object.fromEntries(entries.map(([key, value]) => [key, key === "$ref" ? `doc:${value}` : rooted(value)]));
}
