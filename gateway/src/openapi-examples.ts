// Examples of the OpenAPI document: each field's own (`example` in the proto), else what its name means everywhere, and
// whole messages made of them. One payment runs through all of them, so that the pages of the description fit together.

import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import {
  enumWords,
  isInternal,
  isTimestamp,
  type Json,
  type JsonObject,
  optionOf,
  unwrapped,
} from "@cauri/rpc/json-form";

/** Names that mean the same in every message; the proto need not repeat them. */
const BY_NAME: { readonly [field: string]: Json } = {
  amount_minor: 1500,
  fee_minor: 23,
  net_minor: 1477,
  asset_id: "ast_xof",
  platform_id: "plt_wave_ci",
  rail: "wave",
  client_ref: "order-1042",
  description: "Order 1042",
  is_test: false,
  metadata: { order: "1042" },
  failure: null,
  created_from: "2026-11-01T00:00:00.000Z",
  created_to: "2026-12-01T00:00:00.000Z",
  page: 1,
  per_page: 25,
  total: 1,
  has_more: false,
};
const INSTANT = "2026-11-20T18:53:00.000Z";

/** What stands in the description for this field; undefined where nobody said and nothing can be guessed. */
export function exampleOf(field: DescField): Json | undefined {
  const said = optionOf(field)?.example;
  if (said) return JSON.parse(said) as Json;
  const known = BY_NAME[field.name];
  if (known !== undefined) return known;
  if (field.fieldKind === "list" || field.fieldKind === "map") return undefined;
  if (field.enum !== undefined) return enumWords(field.enum)[0];
  if (isTimestamp(field.message)) return INSTANT;
  const only = field.message === undefined ? undefined : unwrapped(field.message);
  if (only !== undefined) return exampleOf(only);
  return field.scalar === ScalarType.BOOL ? true : undefined;
}

/** A whole message, as it is sent (without what the path gives) or answered. */
export function exampleMessage(desc: DescMessage, without: readonly string[] = []): JsonObject {
  const example: JsonObject = {};
  for (const field of desc.fields) {
    if (isInternal(field) || without.includes(field.name)) continue;
    const said = exampleOf(field);
    const value = said === undefined ? nestedExample(field) : said;
    if (value !== undefined) example[field.name] = value;
  }
  return example;
}

function nestedExample(field: DescField): Json | undefined {
  if (field.message === undefined || field.fieldKind === "map") return undefined;
  const whole = exampleMessage(field.message);
  return field.fieldKind === "list" ? [whole] : whole;
}
