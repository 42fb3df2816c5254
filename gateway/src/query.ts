// Query strings: the known parameters, typed by their fields. Unknown ones are ignored, as unknown body fields are.

import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { isInternal } from "@cauri/rpc/json-form";
import { InexactNumber, textProblem } from "./body.ts";
import { type EdgeRefusal, edgeRefusal } from "./reasons.ts";

const DIGITS = /^-?\d+$/;

/** The parameters of `search` (without its `?`) that are fields of `desc`; what has the wrong form stays a text. */
export function readQuery(
  desc: DescMessage,
  without: readonly string[],
  search: string,
): { fields: Record<string, unknown> } | EdgeRefusal {
  const fields: Record<string, unknown> = {};
  if (search === "") return { fields };
  for (const pair of search.split("&")) {
    const [raw_name = "", ...rest] = pair.split("=");
    const name = decode(raw_name);
    const field = desc.fields.find((candidate) => candidate.name === name);
    if (field === undefined || isInternal(field) || without.includes(field.name)) continue;
    const text = decode(rest.join("="));
    const problem = text === undefined ? "is not valid percent-encoded UTF-8" : textProblem(text);
    if (problem !== undefined || text === undefined) {
      return edgeRefusal("invalid_request", problem ?? "", { field: field.name });
    }
    // Of a repeated parameter the last counts, as of a repeated key in a body; a list collects them.
    if (field.fieldKind === "list")
      fields[field.name] = [...((fields[field.name] as unknown[]) ?? []), typedText(field, text)];
    else fields[field.name] = typedText(field, text);
  }
  return { fields };
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return undefined;
  }
}

/** A text of a path or query in its field's type; what has the wrong form stays a text, which the schema refuses. */
export function typedText(field: DescField, text: string): unknown {
  if (field.scalar === undefined || field.scalar === ScalarType.STRING || field.scalar === ScalarType.BYTES)
    return text;
  if (field.scalar === ScalarType.BOOL) return text === "true" ? true : text === "false" ? false : text;
  if (field.scalar === ScalarType.DOUBLE || field.scalar === ScalarType.FLOAT) return text === "" ? text : Number(text);
  if (!DIGITS.test(text)) return text;
  return Number.isSafeInteger(Number(text)) ? Number(text) : new InexactNumber(text);
}
