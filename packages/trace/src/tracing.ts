// Turns tracing on: loads OpenTelemetry's SDK only when a collector is named, and sends spans to it by OTLP over HTTP.

import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { context, DiagLogLevel, diag, ROOT_CONTEXT } from "@opentelemetry/api";
import { operationIds, type TraceIds } from "./operation-trace.ts";
import { beginSpan, type Span, type SpanOptions, useTracer } from "./span.ts";

export type TracingOptions = {
  /** The room's name, `service.name` of its spans. */
  readonly service: string;
  /** Base URL of an OTLP/HTTP receiver such as `http://collector:4318`; empty: no tracing. */
  readonly endpoint: string;
  /** Which part of all traces is kept, 0 to 1. Each process decides alike, by the trace's id. */
  readonly ratio: number;
  /** Told when spans cannot be delivered. */
  readonly warn: (fields: object, message: string) => void;
};

/** Spans leave this often, in one request. */
const EVERY_MS = 1_000;
/** With the collector away older spans are dropped: telling of work never holds it up. */
const MAX_WAITING = 8_192;
const EXPORT_TIMEOUT_MS = 5_000;
/** A collector that is away does not hold up a stop either. */
const LAST_SPANS_MS = 1_000;

/** Begins to make spans, unless no endpoint is named. The answer ends it and sends what waits. */
export async function startTracing({ service, endpoint, ratio, warn }: TracingOptions): Promise<() => Promise<void>> {
  if (endpoint === "") return async () => {};
  const [sdk, { AsyncLocalStorageContextManager }, { OTLPTraceExporter }, { resourceFromAttributes }] =
    await Promise.all([
      import("@opentelemetry/sdk-trace"),
      import("@opentelemetry/context-async-hooks"),
      import("@opentelemetry/exporter-trace-otlp-http"),
      import("@opentelemetry/resources"),
    ]);
  const tell = (message: string) => warn({ tracing: message.slice(0, 200) }, "spans are not taken");
  diag.setLogger({ error: tell, warn: tell, info() {}, debug() {}, verbose() {} }, DiagLogLevel.WARN);
  const exporter = new OTLPTraceExporter({
    url: `${endpoint.replace(/\/$/, "")}/v1/traces`,
    timeoutMillis: EXPORT_TIMEOUT_MS,
  });
  const provider = new sdk.TracerProvider({
    resource: resourceFromAttributes({ "service.name": service, "service.namespace": "cauri" }),
    // Not by the parent's flag: an operation's trace is found again from its id alone, and must be judged alike.
    sampler: new sdk.TraceIdRatioBasedSampler(ratio),
    idGenerator: { generateSpanId: takeSpanId, generateTraceId: takeTraceId },
    spanProcessors: [
      new sdk.BatchSpanProcessor({
        exporter,
        scheduledDelayMillis: EVERY_MS,
        maxQueueSize: MAX_WAITING,
        exportTimeoutMillis: EXPORT_TIMEOUT_MS,
      }),
    ],
  });
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  useTracer(provider.getTracer("cauri"));
  return async () => {
    const late = sleep(LAST_SPANS_MS, undefined, { ref: false });
    await Promise.race([provider.shutdown().catch((error: unknown) => tell(String(error))), late]);
    useTracer(null);
    context.disable();
    diag.disable();
  };
}

/** Ids that the next span must have; spans begin synchronously, so that nobody else can take them. */
let wanted: TraceIds | null = null;

/** The span with which an operation begins; null while tracing is off. Without an operation the trace's id is random. */
export function beginOperation(name: string, operation: string | null, options: SpanOptions): Span | null {
  wanted = operationIds(operation);
  try {
    return context.with(ROOT_CONTEXT, () => beginSpan(name, options));
  } finally {
    wanted = null;
  }
}

function takeTraceId(): string {
  return wanted?.traceId ?? randomBytes(16).toString("hex");
}

function takeSpanId(): string {
  return wanted?.spanId ?? randomBytes(8).toString("hex");
}
