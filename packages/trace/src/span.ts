// Spans by hand, in the five places through which every piece of work passes: edge, rpc client, rpc server, events, SQL.
// Nothing of OpenTelemetry but its small API is loaded here; while no collector is named, a span is one comparison.

import {
  type Attributes,
  type Context,
  context,
  createTraceState,
  isSpanContextValid,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import { operationIds, type TraceIds } from "./operation-trace.ts";

export type { Attributes, Span } from "@opentelemetry/api";

export type Kind = keyof typeof KINDS;

const KINDS = {
  internal: SpanKind.INTERNAL,
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  producer: SpanKind.PRODUCER,
  consumer: SpanKind.CONSUMER,
} as const;

export type SpanOptions = {
  readonly kind: Kind;
  /** W3C trace context of whoever asked for this, from the wire. It goes before what runs here. */
  readonly parent?: string | undefined;
  /** The operation whose trace this belongs to when nothing else says where it belongs. */
  readonly operation?: string | null | undefined;
  /** A stranger's `traceparent`: shown beside the span, never obeyed. */
  readonly link?: string | undefined;
  /** Only as part of a trace that runs here: what loops do by themselves begins none. */
  readonly within?: true;
  /** Constants, ids and counts only: never a payer's detail, a secret or a merchant's text. */
  readonly attributes?: Attributes;
};

/** Version, trace, parent, flags: the one form of the header that is written today (W3C Trace Context, level 1). */
const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;

let tracer: Tracer | null = null;

/** Whether spans are made at all. */
export function tracing(): boolean {
  return tracer !== null;
}

/** Called by `startTracing` and by its end; null turns every span into nothing. */
export function useTracer(by: Tracer | null): void {
  tracer = by;
}

/**
 * Runs the work inside a span, which ends with it; a thrown error marks the span as failed and goes on. The span is null
 * while tracing is off.
 */
export function inSpan<T>(name: string, options: SpanOptions, work: (span: Span | null) => Promise<T>): Promise<T> {
  if (tracer === null) return work(null);
  const span = beginSpan(name, options);
  if (span === null) return work(null);
  return withSpan(span, () => work(span)).then(
    (result) => {
      span.end();
      return result;
    },
    (error: unknown) => {
      failSpan(span, error);
      span.end();
      throw error;
    },
  );
}

/** A span that the caller ends; null while tracing is off. */
export function beginSpan(name: string, options: SpanOptions, start_ms?: number): Span | null {
  if (tracer === null) return null;
  const parent = parentOf(options);
  if (options.within === true && trace.getSpanContext(parent) === undefined) return null;
  const linked = readTraceparent(options.link);
  return tracer.startSpan(
    name,
    {
      kind: KINDS[options.kind],
      ...(options.attributes === undefined ? {} : { attributes: options.attributes }),
      ...(linked === null ? {} : { links: [{ context: linked }] }),
      ...(start_ms === undefined ? {} : { startTime: start_ms }),
    },
    parent,
  );
}

/** Runs something as part of a span, without ending it. */
export function withSpan<T>(span: Span | null, work: () => T): T {
  return span === null ? work() : context.with(trace.setSpan(ROOT_CONTEXT, span), work);
}

/** Runs something as part of no span: a batch whose items belong to many traces. */
export function outsideSpans<T>(work: () => T): T {
  return tracer === null ? work() : context.with(ROOT_CONTEXT, work);
}

/** Runs something. */
export type Runner = <T>(work: () => T) => T;

const plainly: Runner = (work) => work();

/** Remembers the span that runs here, for work that is begun later by somebody else. */
export function here(): Runner {
  if (tracer === null) return plainly;
  const now = context.active();
  return (work) => context.with(now, work);
}

/** Marks a span as failed by the error's type alone: its text may repeat what a caller sent. */
export function failSpan(span: Span, error: unknown): void {
  const type = error instanceof Error ? error.name : typeof error;
  span.setAttribute("error.type", type);
  span.setStatus({ code: SpanStatusCode.ERROR, message: type });
}

/** The header `traceparent` for what leaves from here; undefined when it belongs to no trace. */
export function traceparent(): string | undefined {
  if (tracer === null) return undefined;
  const present = trace.getSpanContext(context.active());
  return present === undefined ? undefined : headerOf(present);
}

/** The ids that a log line carries, in the names of the OpenTelemetry log model; nothing outside a trace. */
export function logIds(span: Span | null = tracer === null ? null : (trace.getActiveSpan() ?? null)): object {
  if (span === null) return {};
  const { traceId, spanId } = span.spanContext();
  return { trace_id: traceId, span_id: spanId };
}

/** What a `traceparent` names, or null for anything else: it may come from a stranger. */
export function readTraceparent(text: string | undefined): SpanContext | null {
  const [, traceId = "", spanId = "", flags = "0"] = TRACEPARENT.exec(text ?? "") ?? [];
  const traceFlags = Number.parseInt(flags, 16) & TraceFlags.SAMPLED;
  const read: SpanContext = { traceId, spanId, traceFlags, isRemote: true, traceState: createTraceState() };
  return isSpanContextValid(read) ? read : null;
}

/** The header of the span that began an operation: whatever happens to it later, anywhere, belongs below that. */
export function operationTraceparent(operation: string | null | undefined): string | undefined {
  const ids = tracer === null ? null : operationIds(operation);
  return ids === null ? undefined : headerOf({ ...ids, traceFlags: TraceFlags.SAMPLED });
}

function headerOf({ traceId, spanId, traceFlags }: TraceIds & { readonly traceFlags: number }): string {
  return `00-${traceId}-${spanId}-0${traceFlags & TraceFlags.SAMPLED}`;
}

/** What the wire says, else what runs here, else the operation's own beginning, else a new trace. */
function parentOf({ parent, operation }: SpanOptions): Context {
  const remote = readTraceparent(parent);
  if (remote !== null) return trace.setSpanContext(ROOT_CONTEXT, remote);
  const present = context.active();
  if (trace.getSpanContext(present) !== undefined) return present;
  const begun = readTraceparent(operationTraceparent(operation));
  return begun === null ? present : trace.setSpanContext(ROOT_CONTEXT, begun);
}
