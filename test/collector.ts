// A receiver of spans by OTLP over HTTP (JSON), as a collector is one: keeps what it gets, flat.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export type Collected = {
  readonly service: string;
  readonly name: string;
  readonly trace_id: string;
  readonly span_id: string;
  /** Empty for the first span of a trace. */
  readonly parent_id: string;
  readonly failed: boolean;
};

export type Collector = {
  readonly url: string;
  readonly spans: Collected[];
  of(trace_id: string): Collected[];
  close(): Promise<void>;
};

type Value = { readonly stringValue?: string };
type Attribute = { readonly key: string; readonly value: Value };
type Sent = {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] };
    readonly scopeSpans: readonly {
      readonly spans: readonly {
        readonly name: string;
        readonly traceId: string;
        readonly spanId: string;
        readonly parentSpanId?: string;
        readonly status?: { readonly code?: number };
      }[];
    }[];
  }[];
};

const ERROR = 2;

export async function startCollector(): Promise<Collector> {
  const spans: Collected[] = [];
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    if (request.url === "/v1/traces") spans.push(...flatten(JSON.parse(Buffer.concat(parts).toString("utf8"))));
    response.setHeader("content-type", "application/json").end("{}");
  });
  await new Promise<void>((open) => server.listen(0, "127.0.0.1", open));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    of: (trace_id) => spans.filter((span) => span.trace_id === trace_id),
    close: () =>
      new Promise((closed) => {
        server.close(() => closed());
        server.closeAllConnections();
      }),
  };
}

function flatten({ resourceSpans }: Sent): Collected[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) => {
    const service = resource.attributes.find(({ key }) => key === "service.name")?.value.stringValue ?? "";
    return scopeSpans.flatMap((scope) =>
      scope.spans.map((span) => ({
        service,
        name: span.name,
        trace_id: span.traceId,
        span_id: span.spanId,
        parent_id: span.parentSpanId ?? "",
        failed: span.status?.code === ERROR,
      })),
    );
  });
}
