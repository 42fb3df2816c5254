// One JSON line per thing worth knowing, on stdout. What may never be written is cut out here once more, although no
// caller hands it over: a secret in a log is there for years.

import { logIds, tracing } from "@cauri/trace/span";
import { type DestinationStream, destination, type Logger, pino, symbols } from "pino";

export type Log = Logger;

/** Keys whose values are never written, wherever in a line they stand. */
const SECRETS: ReadonlySet<string> = new Set([
  "secret",
  "token",
  "authorization",
  "password",
  "key",
  "api_key",
  "phone",
  "email",
  "name",
  "iban",
  "account_number",
  "payload",
  "body",
]);
const CUT = "[cut]";
/** Nothing of ours is nested deeper; what is, goes. */
const MAX_DEPTH = 4;

/** Longer texts are cut: a driver's error can repeat a whole row. */
const TEXT_LIMIT = 500;
/** Of `postgres://user:password@host` and its sisters only the word stays. */
const CREDENTIALS = /([a-z][a-z0-9+.-]*:\/\/)[^\s/@]*@/gi;

/** So long a usual line waits for others: a system call for each was 5 % of a payment. */
const GATHER_MS = 20;
/** So many bytes wait for no others. */
const GATHER_BYTES = 8_192;
/** What is kept for an output that takes nothing, as on a full disk; lines beyond it are lost. */
const KEPT_BYTES = 1_048_576;
/** pino's number of `warn`. */
const WARN = 40;

/**
 * The logger of one program. A warning or an error is out when the call returns; usual lines leave together a moment
 * later, and at the latest when the process exits. Only a kill can lose the usual lines of its last moment.
 */
export function logger(room: string, level = "info", stream: DestinationStream = sharedOutput()): Log {
  const log = pino(
    {
      level,
      base: { room },
      timestamp: timeField,
      // pino's own redaction walks each path for each line, which cost more than all else about it.
      formatters: { level: (label) => ({ level: label }), log: (fields) => cut(fields) },
      serializers: { err: describeError },
      ...(tracing() ? { mixin: () => logIds() } : {}),
    },
    stream,
  );
  // The fields of a child pass by the formatter above, here and in its own children.
  const { child } = log;
  log.child = function (this: Log, fields: Fields, ...more: []) {
    return child.call(this, cut(fields), ...more);
  } as Log["child"];
  return log;
}

let second = Number.NaN;
let until_second = "";

/** pino's own field of the time, a tenth of its price: all but the milliseconds is made once a second. */
export function timeField(now = Date.now()): string {
  const ms = now % 1000;
  if (now - ms !== second) {
    second = now - ms;
    until_second = new Date(now).toISOString().slice(0, -"000Z".length);
  }
  return `,"time":"${until_second}${String(ms).padStart(3, "0")}Z"`;
}

/** The fields without what may not be written; nearly always the very ones that were given. */
function cut(fields: Fields, depth = 0): Fields {
  let kept = fields;
  for (const key in fields) {
    const value = fields[key];
    const written =
      SECRETS.has(key) && value !== undefined ? CUT : isNested(value) ? cutNested(value, depth + 1) : value;
    if (written === value) continue;
    if (kept === fields) kept = { ...fields };
    kept[key] = written;
  }
  return kept;
}

type Fields = Record<string, unknown>;

/** An error is described by a serializer of its own, which takes none of its fields but the code. */
function isNested(value: unknown): value is object {
  return typeof value === "object" && value !== null && !(value instanceof Error);
}

function cutNested(value: object, depth: number): unknown {
  if (depth > MAX_DEPTH) return CUT;
  if (!Array.isArray(value)) return cut(value as Fields, depth);
  const items = value.map((item) => (isNested(item) ? cutNested(item, depth + 1) : item));
  return items.every((item, index) => item === value[index]) ? value : items;
}

/** Hears each loud line when it is out, and why lines cannot be written. */
export type Hear = (line: string) => void;

export function standardOutput(hear?: Hear, fd = 1): DestinationStream {
  const out = destination({ dest: fd, sync: true, minLength: GATHER_BYTES, maxLength: KEPT_BYTES });
  // A full disk costs lines, not the process: without a listener the error would end it.
  out.on("error", (error: Error) => {
    hear?.(JSON.stringify({ level: "error", msg: "the log cannot be written", err: describeError(error) }));
  });
  return gathering(out, hear);
}

let shared_output: DestinationStream | undefined;

/** One for all loggers of a process that say nothing else. */
function sharedOutput(): DestinationStream {
  shared_output ??= standardOutput();
  return shared_output;
}

/** `flush` writes all that was gathered before it returns. It waits for no disk, as `flushSync` of pino's own would. */
type Sink = { write(line: string): boolean; flush(): void };

/** Gathers usual lines and lets everything out with the first loud one. */
export function gathering(out: Sink, hear: Hear = () => {}): DestinationStream {
  let waiting = false;
  const flush = () => {
    waiting = false;
    out.flush();
  };
  process.on("exit", flush);
  const stream = {
    // With this pino tells the level of each line before it writes it.
    [symbols.needsMetadataGsym]: true,
    lastLevel: 0,
    write(line: string) {
      out.write(line);
      if (stream.lastLevel >= WARN) {
        flush();
        hear(line);
      } else if (!waiting) {
        waiting = true;
        setTimeout(flush, GATHER_MS).unref();
      }
    },
  };
  return stream;
}

/** An error with its causes: message, code and stack, and none of the values that drivers hang on their errors. */
export function describeError(error: unknown): object {
  if (!(error instanceof Error)) return { message: clean(String(error)) };
  const code = "code" in error && error.code !== undefined ? { code: error.code } : {};
  return {
    type: error.name,
    message: clean(error.message),
    ...code,
    stack: frames(error.stack),
    ...(error.cause === undefined ? {} : { cause: describeError(error.cause) }),
  };
}

function clean(text: string): string {
  return text.slice(0, TEXT_LIMIT).replace(CREDENTIALS, "$1");
}

/** The frames alone: the stack's first line repeats the message. */
function frames(stack: string | undefined): string {
  return (stack ?? "")
    .split("\n")
    .filter((line) => line.startsWith("    at "))
    .slice(0, 12)
    .join("\n");
}
