// One JSON line per thing worth knowing, on stdout. What may never be written is cut out here once more, although no
// caller hands it over: a secret in a log is there for years.

import { logIds, tracing } from "@cauri/trace/span";
import { type DestinationStream, destination, type Logger, pino, stdTimeFunctions, symbols } from "pino";

export type Log = Logger;

/** Keys whose values are never written, at the top of a line and one level below. */
const SECRETS = [
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
];

/** Longer texts are cut: a driver's error can repeat a whole row. */
const TEXT_LIMIT = 500;
/** Of `postgres://user:password@host` and its sisters only the word stays. */
const CREDENTIALS = /([a-z][a-z0-9+.-]*:\/\/)[^\s/@]*@/gi;

/** So long a usual line waits for others: a system call for each was 5 % of a payment. */
const GATHER_MS = 20;
/** So many bytes wait for no others. */
const GATHER_BYTES = 8_192;
/** pino's number of `warn`. */
const WARN = 40;

/**
 * The logger of one program. A warning or an error is out when the call returns; usual lines leave together a moment
 * later, and at the latest when the process exits. Only a kill can lose the usual lines of its last moment.
 */
export function logger(room: string, level = "info", stream: DestinationStream = standardOutput()): Log {
  return pino(
    {
      level,
      base: { room },
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: SECRETS.flatMap((key) => [key, `*.${key}`]), censor: "[cut]" },
      serializers: { err: describeError },
      ...(tracing() ? { mixin: () => logIds() } : {}),
    },
    stream,
  );
}

let standard_output: DestinationStream | undefined;

/** One for all loggers of the process. */
function standardOutput(): DestinationStream {
  standard_output ??= gathering(destination({ sync: true, minLength: GATHER_BYTES }));
  return standard_output;
}

type Sink = { write(line: string): boolean; flushSync(): void };

/** Gathers usual lines and lets everything out with the first loud one. */
export function gathering(out: Sink): DestinationStream {
  let waiting = false;
  const flush = () => {
    waiting = false;
    out.flushSync();
  };
  process.on("exit", flush);
  const stream = {
    // With this pino tells the level of each line before it writes it.
    [symbols.needsMetadataGsym]: true,
    lastLevel: 0,
    write(line: string) {
      out.write(line);
      if (stream.lastLevel >= WARN) flush();
      else if (!waiting) {
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
