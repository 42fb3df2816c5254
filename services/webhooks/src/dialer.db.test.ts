// Attempts over real HTTPS: what is verified, bounded, refused, and told in a few words.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { serverIdentity, writeAuthority } from "../../../test/authority.ts";
import { type Dialer, openDialer } from "./dialer.ts";
import { parseNetworks } from "./guard.ts";
import type { Resolve } from "./resolver.ts";

const LOOPBACK = parseNetworks("127.0.0.0/8");
let folder: string;
let server: Server;
let base: string;
let dialer: Dialer;
let connections = 0;
let answer: (request: IncomingMessage, response: ServerResponse) => void;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "cauri-dialer-"));
  await writeAuthority(folder);
  server = createServer(serverIdentity(folder), (request, response) => {
    request.resume().on("end", () => answer(request, response));
  });
  server.on("connection", () => {
    connections += 1;
  });
  // It never hangs up: a post on a connection that is just being closed would fail.
  server.keepAliveTimeout = 0;
  await new Promise<void>((open) => server.listen(0, "127.0.0.1", open));
  base = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  dialer = open({});
});
after(async () => {
  await dialer.close();
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true });
});

function open(more: { resolve?: Resolve; allowed?: string; ca?: null; timeout_ms?: number }): Dialer {
  return openDialer({
    allowed: more.allowed === undefined ? LOOPBACK : parseNetworks(more.allowed),
    timeout_ms: more.timeout_ms ?? 30_000,
    ...(more.ca === null ? {} : { ca: readFileSync(join(folder, "ca.pem"), "utf8") }),
    ...(more.resolve === undefined ? {} : { resolve: more.resolve }),
  });
}

test("post: 2xx is delivered, anything else is not, a redirect is not followed", async () => {
  for (const [status, delivered] of [
    [200, true],
    [204, true],
    [301, false],
    [404, false],
    [500, false],
  ] as const) {
    answer = (_request, response) => response.writeHead(status, { location: `${base}/other` }).end("x");
    const attempt = await dialer.post(`${base}/hook`, { "x-test": "1" }, "{}");
    assert.deepEqual([attempt.delivered, attempt.status_code], [delivered, status]);
    assert.equal(attempt.error, delivered ? null : `answered ${status}`);
  }
});

test("post: a receiver that says nothing, or drips its headers, costs the time-out and no more", async () => {
  answer = () => {};
  const hasty = open({ timeout_ms: 1_000 });
  const attempt = await hasty.post(`${base}/hook`, {}, "{}");
  await hasty.close();
  assert.deepEqual([attempt.delivered, attempt.error], [false, "timed out"]);
});

test("post: an endless answer is cut off, its status counts", async () => {
  answer = (_request, response) => {
    response.writeHead(200);
    const drip = setInterval(() => response.write(Buffer.alloc(65_536)), 5);
    response.on("close", () => clearInterval(drip));
  };
  const attempt = await dialer.post(`${base}/hook`, {}, "{}");
  assert.deepEqual([attempt.delivered, attempt.status_code], [true, 200]);
});

test("post: huge headers are refused", async () => {
  answer = (_request, response) => response.writeHead(200, { "x-long": "y".repeat(30_000) }).end();
  const attempt = await dialer.post(`${base}/hook`, {}, "{}");
  assert.equal(attempt.error, "the answer's headers are too large");
});

test("post: an unknown authority is refused in TLS", async () => {
  const strict = open({ ca: null });
  answer = (_request, response) => response.end();
  const attempt = await strict.post(`${base}/hook`, {}, "{}");
  await strict.close();
  assert.match(attempt.error ?? "", /^TLS: /);
});

test("guard: a literal, a name, one bad answer among good ones: nobody connects", async () => {
  const before_all = connections;
  const port = new URL(base).port;
  const answers: Record<string, string[]> = {
    "loop.example.com": ["127.0.0.1"],
    "mixed.example.com": ["8.8.8.8", "127.0.0.1"],
    "mapped.example.com": ["::ffff:127.0.0.1"],
    "meta.example.com": ["169.254.169.254"],
  };
  const resolve: Resolve = async (name) =>
    (answers[name] ?? []).map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));
  const guarded = open({ allowed: "", resolve });
  for (const host of [...Object.keys(answers), "127.0.0.1", "[::ffff:7f00:1]", "0x7f.1", "[::1]"]) {
    const attempt = await guarded.post(`https://${host}:${port}/hook`, {}, "{}");
    assert.match(attempt.error ?? "", /^refused to connect: /, host);
    assert.notEqual(await guarded.whyForbidden(`https://${host}:${port}/hook`), null, host);
  }
  assert.match((await guarded.post("https://none.example.com/", {}, "{}")).error ?? "", /./);
  assert.equal(
    await guarded.whyForbidden("https://none.example.com/"),
    null,
    "a name that does not resolve yet may be registered",
  );
  await guarded.close();
  assert.equal(connections, before_all);
});

test("guard: a name rebound after the check is checked again when it is dialled", async () => {
  const before_all = connections;
  let asked = 0;
  const resolve: Resolve = async () => {
    asked += 1;
    return [{ address: asked === 1 ? "8.8.8.8" : "127.0.0.1", family: 4 }];
  };
  const guarded = open({ allowed: "", resolve });
  const url = `https://rebind.example.com:${new URL(base).port}/hook`;
  assert.equal(await guarded.whyForbidden(url), null);
  assert.match((await guarded.post(url, {}, "{}")).error ?? "", /^refused to connect/);
  await guarded.close();
  assert.equal(connections, before_all);
});

test("post: nobody listens, or nobody speaks TLS: an attempt with its error, never a throw", async () => {
  const plain = createTcpServer((socket) => socket.resume().end("no TLS here\n"));
  await new Promise<void>((listening) => plain.listen(0, "127.0.0.1", listening));
  const { port } = plain.address() as AddressInfo;
  assert.equal((await dialer.post(`https://127.0.0.1:${port}/`, {}, "{}")).delivered, false);
  await new Promise((closed) => plain.close(closed));
  // Port 1 is nobody's; one that was just given up may be another's by now.
  assert.equal((await dialer.post("https://127.0.0.1:1/", {}, "{}")).error, "the connection was refused");
});
