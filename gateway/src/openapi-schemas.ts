// Components of the OpenAPI document: one schema per message, with the proto's comments as descriptions. What is sent
// and what is answered are two forms of a message: an answer always holds every field, an absent value as null.

import type { DescField, DescMessage } from "@bufbuild/protobuf";
import { hasPresence, isInternal, isTimestamp, optionOf, unwrapped } from "@cauri/rpc/json-form";
import { commentOf } from "./image.ts";
import { exampleOf } from "./openapi-examples.ts";
import { enumWordsDoc } from "./openapi-words.ts";
import { fieldSchema, inputSchema, type Schema } from "./schema.ts";

export type Components = {
  /** A reference to what a client sends; the component is made at its first use. */
  input(desc: DescMessage, without?: readonly string[]): Schema;
  /** A reference to what is answered. */
  output(desc: DescMessage): Schema;
  readonly schemas: { [name: string]: Schema };
};

export function createComponents(): Components {
  const schemas: { [name: string]: Schema } = {};
  const owners = new Map<string, string>();

  function component(name: string, owner: string, make: () => Schema): Schema {
    const other = owners.get(name);
    // Two messages of one name would overwrite each other in every generated client.
    if (other !== undefined && other !== owner) throw new Error(`${owner} and ${other} both want the name ${name}`);
    if (other === undefined) {
      owners.set(name, owner);
      schemas[name] = make();
    }
    return { $ref: `#/components/schemas/${name}` };
  }

  const input = (desc: DescMessage, without: readonly string[] = []): Schema =>
    component(desc.name, `${desc.typeName} as input`, () => describedInput(desc, without, input));
  const output = (desc: DescMessage): Schema =>
    component(desc.name, `${desc.typeName} as output`, () => outputSchema(desc, output));
  return { input, output, schemas };
}

function describedInput(desc: DescMessage, without: readonly string[], nest: (desc: DescMessage) => Schema): Schema {
  const schema = inputSchema(desc, without, nest);
  const properties = schema["properties"] as { [name: string]: Schema };
  for (const field of desc.fields) {
    const property = properties[field.name];
    if (property !== undefined)
      properties[field.name] = toldDefault(described(field, absentAsNull(field, publicForm(property))));
  }
  return { description: commentOf(desc), ...schema };
}

function outputSchema(desc: DescMessage, nest: (desc: DescMessage) => Schema): Schema {
  const properties: { [name: string]: Schema } = {};
  for (const field of desc.fields) {
    if (isInternal(field)) continue;
    properties[field.name] = described(field, nullable(field, outputField(field, nest)));
  }
  const required = desc.fields.filter((field) => !isInternal(field) && !isOmitted(field)).map(({ name }) => name);
  return { description: commentOf(desc), type: "object", properties, required };
}

/** An answer's field without the bounds of what may be sent. */
function outputField(field: DescField, nest: (desc: DescMessage) => Schema): Schema {
  if (field.fieldKind === "message") {
    const only = isTimestamp(field.message) ? undefined : unwrapped(field.message);
    return only === undefined ? publicForm(fieldSchema(field, nest)) : outputField(only, nest);
  }
  return publicForm(fieldSchema(field, nest));
}

/** Left out of an answer where it is absent, and so never null. */
function isOmitted(field: DescField): boolean {
  return optionOf(field)?.omitAbsent === true;
}

/** May be null: what has presence in the proto and is not marked as required, and an enum that was never said. */
function nullable(field: DescField, schema: Schema): Schema {
  if (optionOf(field)?.required === true || isOmitted(field)) return schema;
  if (!hasPresence(field) || field.fieldKind === "list" || field.fieldKind === "map") return schema;
  return orNull(schema);
}

/** In words: generators of typed clients take a field of a body with a `default` for one that must be there. */
function toldDefault({ default: value, ...schema }: Schema): Schema {
  return value === undefined
    ? schema
    : { ...schema, description: `${String(schema["description"])} Absent: ${value}.` };
}

/** What need not be sent may be sent as null: the edge drops it, also in a map. */
function absentAsNull(field: DescField, schema: Schema): Schema {
  if (optionOf(field)?.required === true) return schema;
  const pairs = schema["additionalProperties"];
  return orNull(pairs === undefined ? schema : { ...schema, additionalProperties: orNull(pairs as Schema) });
}

function orNull(schema: Schema): Schema {
  if (schema["$ref"] !== undefined) return { anyOf: [schema, { type: "null" }] };
  const words = schema["enum"];
  return {
    ...schema,
    type: [schema["type"] as string, "null"],
    ...(Array.isArray(words) ? { enum: [...words, null] as string[] } : {}),
  };
}

/** Comment, example and default of a field around its schema. */
export function described(field: DescField, schema: Schema): Schema {
  const option = optionOf(field);
  const description = [commentOf(field), enumWordsDoc(field)].filter(Boolean).join("\n\n");
  const example = exampleOf(field);
  return {
    ...(description === "" ? {} : { description }),
    ...schema,
    ...(option?.default ? { default: JSON.parse(option.default) } : {}),
    ...(example === undefined ? {} : { examples: [example] }),
  };
}

/** Our own format names in the words that OpenAPI tools know. */
export function publicForm(schema: Schema): Schema {
  if (schema["format"] === "https_url") {
    // No `uri`: as browsers do, the edge takes characters that RFC 3986 wants encoded.
    const { format: _, ...rest } = schema;
    return { ...rest, pattern: "^[Hh][Tt][Tt][Pp][Ss]://" };
  }
  if (schema["format"] === "base64") {
    const { format: _, ...rest } = schema;
    return { ...rest, contentEncoding: "base64" };
  }
  if (schema["type"] === "array") return { ...schema, items: publicForm(schema["items"] as Schema) };
  if (schema["type"] === "integer" && Number(schema["maximum"]) > 2 ** 32) return { ...schema, format: "int64" };
  return schema;
}
