// What comes out: for people a sentence or a table, for scripts exactly one JSON document in the contract's own form.

import type { JsonObject } from "@cauri/rpc/json-form";

/** How one answer is shown: its JSON, and what a person reads. */
export type Shown = {
  readonly json: JsonObject;
  readonly people: string;
  /** The exit code where the answer itself is bad news (books that don't hold); 0 when absent. */
  readonly exit?: number;
};

/** A heading and how a row is read. */
export type Column<T> = readonly [heading: string, cell: (row: T) => string | number | boolean | null];

/** Columns as wide as their widest cell; numbers to the right. */
export function table<T>(rows: readonly T[], columns: readonly Column<T>[], empty: string): string {
  if (rows.length === 0) return empty;
  const cells = rows.map((row) => columns.map(([, cell]) => cell(row)));
  const texts = cells.map((row) => row.map(cellText));
  const headings = columns.map(([heading]) => heading);
  const widths = headings.map((heading, i) => Math.max(heading.length, ...texts.map((row) => (row[i] ?? "").length)));
  const isNumber = headings.map((_, i) => cells.every((row) => typeof row[i] === "number"));
  const line = (row: readonly string[]) =>
    row
      .map((text, i) => (isNumber[i] ? text.padStart(widths[i] ?? 0) : text.padEnd(widths[i] ?? 0)))
      .join("  ")
      .trimEnd();
  return [headings, ...texts].map(line).join("\n");
}

/** A list of facts, one per line, for one thing. */
export function facts(rows: readonly (readonly [string, string | number | boolean | null])[]): string {
  const width = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, value]) => `${name.padEnd(width)}  ${cellText(value)}`).join("\n");
}

function cellText(value: string | number | boolean | null): string {
  if (value === null || value === "") return "-";
  if (typeof value === "boolean") return value ? "yes" : "no";
  return printable(String(value));
}

/** A control character in a name must not reach a terminal. */
export function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, "?");
}
