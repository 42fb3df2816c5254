// A closed loop: each connection sends its next request when it has the answer to the last. What it costs, and how it is
// told, is the same for every kind of request.

import { handles, type Merchant, merchant } from "../test/house.ts";
import { type BenchLine, openLine } from "./bench-wire.ts";
import { percentile, sum } from "./measure.ts";

/** The most that the rate limit can be set to: 64 keys admit 960 creations a second. */
export const RATE_LIMIT = 900;

/** Without a body it is read, with one it is created. */
export type Target = { readonly path: string; readonly body?: string };
export type Sample = { readonly status: number; readonly ms: number };

/** Merchants with one webhook endpoint each, subscribed to everything. */
export async function openMerchants(count: number, receiver_url: string): Promise<Merchant[]> {
  const made: Merchant[] = [];
  for (let at = 0; at < count; at += 1) {
    const account = await merchant(`Bench ${at}`);
    const answer = await account.test.post("/v1/webhooks", { url: receiver_url });
    if (answer.status !== 201) throw new Error(`the webhook endpoint was refused: ${answer.status} ${answer.text}`);
    made.push(account);
  }
  return made;
}

/** One key per connection, spread over the merchants. */
export async function openKeys(merchants: readonly Merchant[], connections: number): Promise<string[]> {
  const keys: string[] = [];
  for (let at = 0; at < connections; at += 1) {
    const account = merchants[at % merchants.length];
    if (account !== undefined) keys.push((await account.key("test")).key);
  }
  return keys;
}

/** Each key on a connection of its own, for so long. */
export async function drive(keys: readonly string[], target: Target, seconds: number): Promise<Sample[]> {
  const { base_url } = handles();
  const lines = await Promise.all(keys.map(() => openLine(base_url)));
  const end = performance.now() + seconds * 1000;
  const samples: Sample[] = [];
  const one = async (line: BenchLine, request: string) => {
    while (performance.now() < end) {
      const began = performance.now();
      const status = await line.ask(request);
      samples.push({ status, ms: performance.now() - began });
    }
  };
  try {
    await Promise.all(lines.map((line, at) => one(line, requestText(new URL(base_url).host, keys[at] ?? "", target))));
  } finally {
    for (const line of lines) line.close();
  }
  return samples;
}

function requestText(host: string, key: string, { path, body }: Target): string {
  const head = `${body === undefined ? "GET" : "POST"} ${path} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${key}\r\n`;
  if (body === undefined) return `${head}\r\n`;
  return `${head}Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

export function printSamples(samples: readonly Sample[], seconds: number): void {
  const statuses = new Map<number, number>();
  for (const { status } of samples) statuses.set(status, (statuses.get(status) ?? 0) + 1);
  const sorted = samples.map(({ ms }) => ms).sort((a, b) => a - b);
  const at = (share: number) => `${percentile(sorted, share).toFixed(1)} ms`;
  console.log(`rate     ${(samples.length / seconds).toFixed(1)} requests/s over ${seconds.toFixed(1)} s`);
  console.log(`latency  p50 ${at(0.5)}, p95 ${at(0.95)}, p99 ${at(0.99)}, longest ${at(1)}`);
  console.log(`answers  ${[...statuses].map(([status, count]) => `${status}: ${count}`).join(", ")}`);
}

export function printCpu(
  before: Readonly<Record<string, number>>,
  after: Readonly<Record<string, number>>,
  requests: number,
  seconds: number,
): void {
  const used = Object.entries(after).map(([name, ms]) => ({ name, ms: ms - (before[name] ?? 0) }));
  const line = (name: string, ms: number) => {
    const each = (ms / requests).toFixed(3).padStart(8);
    const share = ((ms / seconds / 1000) * 100).toFixed(0).padStart(4);
    console.log(`cpu      ${name.padEnd(14)} ${each} ms per request, ${share} % of a core`);
  };
  for (const { name, ms } of used) line(name, ms);
  line("sum", sum(used.map(({ ms }) => ms)));
}
