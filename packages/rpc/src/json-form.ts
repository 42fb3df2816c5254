// The contract's own JSON form of protobuf messages, for the gateway and the command line: snake_case keys, int64 as
// numbers, lower-case enum words, RFC 3339 times with milliseconds, every field present and an absent value null.
// Writers and readers are compiled once per message type, because they stand on the path of every request.

import {
  create,
  type DescEnum,
  type DescField,
  type DescMessage,
  getOption,
  hasOption,
  type Message,
  ScalarType,
} from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
import { type Field, field as fieldOption, shape as shapeOption } from "@cauri/proto/es/cauri/api/v1/options_pb";

export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

/** A message as it lies in memory: protobuf-es keeps plain properties, and real oneofs as `{case, value}`. */
type Plain = Record<string, unknown>;
type WriteValue = (value: unknown) => Json;
type ReadValue = (value: Json) => unknown;

const TIMESTAMP = "google.protobuf.Timestamp";
const FIELD_MASK = "google.protobuf.FieldMask";

const RFC3339 = /^(\d{4}-\d{2}-\d{2})[Tt]((?:[01]\d|2[0-3]):\d{2}:\d{2})(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d{2}:\d{2})$/;

const YEAR_1_MS = Date.parse("0001-01-01T00:00:00Z");
const YEAR_10000_MS = Date.parse("+010000-01-01T00:00:00Z");

/** The `field` option, or undefined where the proto says nothing. */
export function optionOf(field: DescField): Field | undefined {
  return hasOption(field, fieldOption) ? getOption(field, fieldOption) : undefined;
}

/** Whether the field has no place in the JSON form: the gateway fills it. */
export function isInternal(field: DescField): boolean {
  return optionOf(field)?.internal === true;
}

/** The single field as whose value a message is written (`shape.unwrap`), else undefined. */
export function unwrapped(desc: DescMessage): DescField | undefined {
  if (!hasOption(desc, shapeOption) || !getOption(desc, shapeOption).unwrap) return undefined;
  const [only, second] = desc.fields;
  if (only === undefined || second !== undefined) throw new Error(`${desc.typeName}: unwrap needs exactly one field`);
  return only;
}

export function isTimestamp(desc: DescMessage | undefined): boolean {
  return desc?.typeName === TIMESTAMP;
}

export function isFieldMask(desc: DescMessage | undefined): boolean {
  return desc?.typeName === FIELD_MASK;
}

/** Whether absence can be told from a zero value. */
export function hasPresence(field: DescField): boolean {
  return field.presence === FeatureSet_FieldPresence.EXPLICIT;
}

/** The words of an enum in the JSON form, without the one for "not said". */
export function enumWords(desc: DescEnum): string[] {
  return desc.values.filter((value) => value.number !== 0).map((value) => value.localName.toLowerCase());
}

/** The answer's form: every field is there, what is absent is null (but for `omit_absent`), an empty list is []. */
export function toJsonForm(desc: DescMessage, message: Message): JsonObject {
  return writerOf(desc, "whole")(message) as JsonObject;
}

/**
 * The form in which a client would have sent this message: absent fields are left out, and so is the zero value of a
 * field whose absence cannot be told from it, unless it is a required number (then the bounds decide).
 */
export function toSentForm(desc: DescMessage, message: Message): JsonObject {
  return writerOf(desc, "sent")(message) as JsonObject;
}

/** The message behind a JSON form that its schema has accepted; throws where the form is not the message's. */
export function fromJsonForm(desc: DescMessage, json: Json): Message {
  return readerOf(desc)(json) as Message;
}

/** Seconds and nanoseconds of an RFC 3339 text, or null where it is none. */
export function parseTimestamp(text: string): { seconds: bigint; nanos: number } | null {
  const parts = RFC3339.exec(text);
  if (parts === null) return null;
  const [, date = "", time = "", fraction = "", zone = ""] = parts;
  const midnight = Date.parse(`${date}T00:00:00Z`);
  const whole_ms = Date.parse(`${date}T${time}${zone.toUpperCase()}`);
  // Date.parse rolls 30 February over into March; a date that does not come back as written does not exist.
  if (!isInCalendar(whole_ms) || Number.isNaN(midnight) || new Date(midnight).toISOString().slice(0, 10) !== date) {
    return null;
  }
  return { seconds: BigInt(whole_ms / 1000), nanos: Number(fraction.padEnd(9, "0")) };
}

type Style = "whole" | "sent";
const writers = { whole: new WeakMap<DescMessage, WriteValue>(), sent: new WeakMap<DescMessage, WriteValue>() };
const readers = new WeakMap<DescMessage, ReadValue>();

function writerOf(desc: DescMessage, style: Style): WriteValue {
  const known = writers[style].get(desc);
  if (known !== undefined) return known;
  if (isTimestamp(desc)) return style === "sent" ? sentTimestamp : writeTimestamp;
  if (isFieldMask(desc)) return (value) => (value as { paths: string[] }).paths.join(",");
  const only = unwrapped(desc);
  const steps: ((from: Plain, to: JsonObject) => void)[] = [];
  const write: WriteValue = (value) => {
    const to: JsonObject = {};
    for (const step of steps) step(value as Plain, to);
    return to;
  };
  // Set before the fields are compiled: a message may hold itself.
  writers[style].set(desc, write);
  if (only !== undefined) {
    const value_of = fieldWriter(only, style);
    const bare: WriteValue = (value) => value_of((value as Plain)[only.localName]);
    writers[style].set(desc, bare);
    return bare;
  }
  for (const field of desc.fields) if (!isInternal(field)) steps.push(fieldStep(field, style));
  return write;
}

function fieldStep(field: DescField, style: Style): (from: Plain, to: JsonObject) => void {
  const get = getter(field);
  const write = fieldWriter(field, style);
  const { name } = field;
  if (style === "whole") {
    const omits = optionOf(field)?.omitAbsent === true;
    return (from, to) => {
      const value = get(from);
      if (value !== undefined) to[name] = write(value);
      else if (!omits) to[name] = null;
    };
  }
  const required = optionOf(field)?.required === true;
  const present = hasPresence(field);
  return (from, to) => {
    const value = get(from);
    if (value === undefined) return;
    const written = write(value);
    if (present || !isZero(written) || (required && typeof written === "number")) to[name] = written;
  };
}

function isZero(json: Json): boolean {
  if (typeof json === "object") return json === null || Object.keys(json).length === 0;
  return json === "" || json === 0 || json === false;
}

function getter(field: DescField): (from: Plain) => unknown {
  const { localName, oneof } = field;
  if (oneof === undefined) return (from) => from[localName];
  return (from) => {
    const chosen = from[oneof.localName] as { case?: string; value?: unknown };
    return chosen.case === localName ? chosen.value : undefined;
  };
}

function fieldWriter(field: DescField, style: Style): WriteValue {
  const write = valueWriter(field, style);
  if (field.fieldKind === "list") return (value) => (value as unknown[]).map(write);
  if (field.fieldKind === "map") {
    return (value) => {
      const to: JsonObject = {};
      for (const [key, item] of Object.entries(value as Plain)) to[key] = write(item);
      return to;
    };
  }
  return write;
}

function valueWriter(field: DescField, style: Style): WriteValue {
  if (field.message !== undefined) {
    const { message } = field;
    return (value) => writerOf(message, style)(value);
  }
  if (field.enum !== undefined) {
    const words = new Map(field.enum.values.map((value) => [value.number, value.localName.toLowerCase()]));
    // A number that is no word of ours was sent all the same: it is for the schema to refuse.
    const unknown = style === "sent" ? String : () => null;
    return (value) => (value === 0 ? null : (words.get(value as number) ?? unknown(value)));
  }
  if (field.scalar === ScalarType.BYTES) return (value) => Buffer.from(value as Uint8Array).toString("base64");
  // Likewise beyond 2^53: rounded it is still too large, or too small.
  const number = style === "sent" ? Number : (value: bigint) => safeNumber(value, field);
  return (value) => (typeof value === "bigint" ? number(value) : (value as Json));
}

/** Amounts never exceed 2^53-1 anywhere in the house, so a larger one is a defect, not something to be rounded. */
function safeNumber(value: bigint, field: DescField): number {
  const number = Number(value);
  if (!Number.isSafeInteger(number)) throw new RangeError(`${field.toString()}: more than a JSON number can hold`);
  return number;
}

function writeTimestamp(value: unknown): string {
  const { seconds, nanos } = value as { seconds: bigint; nanos: number };
  return new Date(Number(seconds) * 1000 + Math.floor(nanos / 1_000_000)).toISOString();
}

/** Of an instant that no calendar has, its seconds: no form of a time, so that the schema refuses it. */
function sentTimestamp(value: unknown): string {
  const { seconds } = value as { seconds: bigint };
  return isInCalendar(Number(seconds) * 1000) ? writeTimestamp(value) : String(seconds);
}

/** From the year 1 to 9999, as protobuf's own times and RFC 3339 with four digits have it. */
function isInCalendar(at_ms: number): boolean {
  return at_ms >= YEAR_1_MS && at_ms < YEAR_10000_MS;
}

function readerOf(desc: DescMessage): ReadValue {
  const known = readers.get(desc);
  if (known !== undefined) return known;
  if (isTimestamp(desc)) return (json) => create(desc, readTimestamp(json));
  const only = unwrapped(desc);
  const fields = new Map<string, (to: Plain, json: Json) => void>();
  const read: ReadValue = (json) => {
    const message = create(desc) as unknown as Plain;
    if (only !== undefined) {
      fields.get(only.name)?.(message, json);
      return message;
    }
    if (typeof json !== "object" || json === null || Array.isArray(json)) throw mismatch(desc.typeName, "an object");
    for (const [name, value] of Object.entries(json)) if (value !== null) fields.get(name)?.(message, value);
    return message;
  };
  readers.set(desc, read);
  for (const field of desc.fields) if (!isInternal(field)) fields.set(field.name, setter(field));
  return read;
}

function setter(field: DescField): (to: Plain, json: Json) => void {
  const { localName, oneof } = field;
  const read = fieldReader(field);
  if (oneof === undefined) {
    return (to, json) => {
      to[localName] = read(json);
    };
  }
  return (to, json) => {
    to[oneof.localName] = { case: localName, value: read(json) };
  };
}

function fieldReader(field: DescField): ReadValue {
  const read = valueReader(field);
  if (field.fieldKind === "list") {
    return (json) => {
      if (!Array.isArray(json)) throw mismatch(field.name, "a list");
      return json.map(read);
    };
  }
  if (field.fieldKind === "map") {
    return (json) => {
      if (typeof json !== "object" || json === null || Array.isArray(json)) throw mismatch(field.name, "an object");
      const to: Plain = {};
      for (const [key, item] of Object.entries(json)) to[key] = read(item);
      return to;
    };
  }
  return read;
}

function valueReader(field: DescField): ReadValue {
  if (field.message !== undefined) {
    const { message } = field;
    return (json) => readerOf(message)(json);
  }
  if (field.enum !== undefined) {
    const numbers = new Map(field.enum.values.map((value) => [value.localName.toLowerCase(), value.number]));
    return (json) => {
      const number = numbers.get(String(json));
      if (number === undefined) throw mismatch(field.name, `one of ${[...numbers.keys()].join(", ")}`);
      return number;
    };
  }
  return scalarReader(field.name, field.scalar);
}

function scalarReader(name: string, scalar: ScalarType | undefined): ReadValue {
  switch (scalar) {
    case ScalarType.INT64:
    case ScalarType.SINT64:
    case ScalarType.SFIXED64:
    case ScalarType.UINT64:
    case ScalarType.FIXED64:
      return (json) => {
        if (!Number.isSafeInteger(json)) throw mismatch(name, "a whole number");
        return BigInt(json as number);
      };
    case ScalarType.STRING:
      return (json) => expectType(name, json, "string");
    case ScalarType.BOOL:
      return (json) => expectType(name, json, "boolean");
    case ScalarType.BYTES:
      return (json) => new Uint8Array(Buffer.from(expectType(name, json, "string") as string, "base64"));
    default:
      return (json) => expectType(name, json, "number");
  }
}

function expectType(name: string, json: Json, type: "string" | "number" | "boolean"): Json {
  if (typeof json !== type) throw mismatch(name, `a ${type}`);
  return json;
}

function readTimestamp(json: Json): { seconds: bigint; nanos: number } {
  const parsed = typeof json === "string" ? parseTimestamp(json) : null;
  if (parsed === null) throw mismatch("time", "an RFC 3339 text");
  return parsed;
}

function mismatch(name: string, wanted: string): TypeError {
  return new TypeError(`${name}: must be ${wanted}`);
}
