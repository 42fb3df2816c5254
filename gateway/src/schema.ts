// JSON Schemas from descriptors and field options: one text for the validator at the door and for the OpenAPI document,
// so that what is documented and what is enforced cannot differ.

import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import type { Field } from "@cauri/proto/es/cauri/api/v1/options_pb";
import { enumWords, isFieldMask, isInternal, isTimestamp, type Json, optionOf, unwrapped } from "@cauri/rpc/json-form";
import { SenselessOption } from "./routes.ts";

export type Schema = { [keyword: string]: Json | Schema | Schema[] | { [name: string]: Schema } };

export const MAX_MINOR = Number.MAX_SAFE_INTEGER;
const INT32 = 2 ** 31;
const FORMATS = ["uri", "https_url", "email", "date-time"];

/** Called for each message inside a message: the validator writes it out, OpenAPI puts a reference. */
export type Nest = (desc: DescMessage) => Schema;

/** The schema of what a client sends: the fields of `desc` but for those that the path gives. */
export function inputSchema(desc: DescMessage, without: readonly string[] = [], nest: Nest = inputSchema): Schema {
  const properties: Record<string, Schema> = {};
  const required: string[] = [];
  for (const field of desc.fields) {
    if (isInternal(field) || without.includes(field.name)) continue;
    properties[field.name] = fieldSchema(field, nest);
    if (optionOf(field)?.required === true) required.push(field.name);
  }
  return { type: "object", properties, ...(required.length > 0 ? { required } : {}) };
}

/** The schema of one field with its bounds, without its documentation. */
export function fieldSchema(field: DescField, nest: Nest): Schema {
  const option = optionOf(field);
  if (option !== undefined) checkOption(field, option);
  if (field.fieldKind === "list") return listSchema(field, option, nest);
  if (field.fieldKind === "map") return mapSchema(field, option, nest);
  if (field.fieldKind === "message") return messageSchema(field.message, nest);
  return valueSchema(field, option);
}

function messageSchema(desc: DescMessage, nest: Nest): Schema {
  if (isTimestamp(desc)) return { type: "string", format: "date-time" };
  const only = unwrapped(desc);
  return only === undefined ? nest(desc) : fieldSchema(only, nest);
}

function listSchema(field: DescField & { fieldKind: "list" }, option: Field | undefined, nest: Nest): Schema {
  const items = field.message === undefined ? valueSchema(field, option, false) : messageSchema(field.message, nest);
  return {
    type: "array",
    items,
    ...(option?.minLength === undefined ? {} : { minItems: option.minLength }),
    ...(option?.maxLength === undefined ? {} : { maxItems: option.maxLength }),
  };
}

function mapSchema(field: DescField & { fieldKind: "map" }, option: Field | undefined, nest: Nest): Schema {
  const values = field.message === undefined ? valueSchema(field, undefined) : messageSchema(field.message, nest);
  const bounded = option?.maxValueLength === undefined ? values : { ...values, maxLength: option.maxValueLength };
  return {
    type: "object",
    additionalProperties: bounded,
    ...(option?.maxLength === undefined ? {} : { maxProperties: option.maxLength }),
    ...(option?.maxKeyLength === undefined
      ? {}
      : { propertyNames: { type: "string", minLength: 1, maxLength: option.maxKeyLength } }),
  };
}

/** `lengths` is false for the items of a list: there `min_length` and `max_length` bound the list. */
function valueSchema(field: DescField, option: Field | undefined, lengths = true): Schema {
  if (field.enum !== undefined) return { type: "string", enum: enumWords(field.enum) };
  switch (field.scalar) {
    case ScalarType.BOOL:
      return { type: "boolean" };
    case ScalarType.BYTES:
      return { type: "string", format: "base64" };
    case ScalarType.DOUBLE:
    case ScalarType.FLOAT:
      return { type: "number", ...bounds(option, -Number.MAX_VALUE, Number.MAX_VALUE, false) };
    case ScalarType.STRING:
      return textSchema(option, lengths);
    case ScalarType.INT32:
    case ScalarType.SINT32:
    case ScalarType.SFIXED32:
      return { type: "integer", ...bounds(option, -INT32, INT32 - 1, true) };
    case ScalarType.UINT32:
    case ScalarType.FIXED32:
      return { type: "integer", ...bounds(option, 0, 2 * INT32 - 1, true) };
    case ScalarType.UINT64:
    case ScalarType.FIXED64:
      return { type: "integer", ...bounds(option, 0, MAX_MINOR, true) };
    default:
      return { type: "integer", ...bounds(option, option?.amount === true ? 1 : -MAX_MINOR, MAX_MINOR, true) };
  }
}

function bounds(option: Field | undefined, least: number, most: number, always: boolean): Schema {
  const minimum = option?.min === undefined ? least : Number(option.min);
  const maximum = option?.max === undefined ? most : Number(option.max);
  return {
    ...(always || minimum !== least ? { minimum } : {}),
    ...(always || maximum !== most ? { maximum } : {}),
  };
}

function textSchema(option: Field | undefined, lengths: boolean): Schema {
  if (option === undefined) return { type: "string" };
  return {
    type: "string",
    ...(lengths && option.minLength !== undefined ? { minLength: option.minLength } : {}),
    ...(lengths && option.maxLength !== undefined ? { maxLength: option.maxLength } : {}),
    ...(option.pattern ? { pattern: `^(?:${option.pattern})$` } : {}),
    ...(option.format ? { format: option.format } : {}),
    ...(option.oneOf.length > 0 ? { enum: option.oneOf } : {}),
  };
}

/** A bound that can never hold, or one that its field has no use for, stops the boot. */
function checkOption(field: DescField, option: Field): void {
  const say = (sentence: string): never => {
    throw new SenselessOption(`${field.parent.typeName}.${field.name}: ${sentence}`);
  };
  const text = field.scalar === ScalarType.STRING;
  const sized = field.fieldKind === "list" || field.fieldKind === "map" || text;
  const wide = field.scalar === ScalarType.INT64 || field.scalar === ScalarType.UINT64;
  const number =
    field.scalar !== undefined && ![ScalarType.STRING, ScalarType.BOOL, ScalarType.BYTES].includes(field.scalar);
  if (isFieldMask(field.message) && !option.internal) say("a field mask is internal");
  if (option.internal && option.required) say("a client cannot be asked for an internal field");
  if ((option.min !== undefined || option.max !== undefined) && !number) say("min and max bound numbers");
  if (option.min !== undefined && option.max !== undefined && option.min > option.max) say("min is more than max");
  if ((option.minLength !== undefined || option.maxLength !== undefined) && !sized)
    say("lengths bound texts, lists, maps");
  if (option.minLength !== undefined && option.maxLength !== undefined && option.minLength > option.maxLength) {
    say("min_length is more than max_length");
  }
  if ((option.pattern || option.format || option.oneOf.length > 0) && !text)
    say("pattern, format, one_of are for texts");
  if (option.format && !FORMATS.includes(option.format)) say(`there is no format ${option.format}`);
  if (option.amount && !wide) say("an amount is an int64");
  if ((option.maxKeyLength !== undefined || option.maxValueLength !== undefined) && field.fieldKind !== "map") {
    say("max_key_length and max_value_length bound maps");
  }
  if (option.pattern) checkPattern(option.pattern, say);
  for (const json of [option.example, option.default]) if (json) checkJson(json, say);
}

function checkPattern(pattern: string, say: (sentence: string) => never): void {
  try {
    new RegExp(`^(?:${pattern})$`, "u");
  } catch {
    say(`the pattern ${pattern} is no regular expression`);
  }
}

function checkJson(json: string, say: (sentence: string) => never): void {
  try {
    JSON.parse(json);
  } catch {
    say(`${json} is not JSON`);
  }
}
