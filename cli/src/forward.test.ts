import assert from "node:assert/strict";
import { createServer, type IncomingHttpHeaders, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { InvalidArgumentError } from "commander";
import { forward, parseTarget } from "./forward.ts";

const DELIVERY = {
  headers: [
    { name: "content-type", value: "application/json" },
    { name: "x-service-signature", value: "t=1,v1=ab" },
  ],
  body: '{"name":"Kôné"}',
};
const on = new AbortController().signal;

async function server(t: TestContext, answer: RequestListener): Promise<URL> {
  const server = createServer(answer);
  await new Promise<void>((open) => server.listen(0, "127.0.0.1", open));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/hook?a=1`);
}

test("forward: the very bytes and the headers of a delivery, and what was answered", async (t) => {
  let seen: { url: string | undefined; headers: IncomingHttpHeaders; body: string } | undefined;
  const target = await server(t, (request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      seen = { url: request.url, headers: request.headers, body: Buffer.concat(chunks).toString() };
      response.writeHead(204).end();
    });
  });
  const { status_code, error } = await forward(target, DELIVERY, on);
  assert.deepEqual([status_code, error, seen?.url, seen?.body], [204, null, "/hook?a=1", DELIVERY.body]);
  assert.deepEqual(Object.keys(seen?.headers ?? {}).sort(), [
    "connection",
    "content-length",
    "content-type",
    "host",
    "x-service-signature",
  ]);
});

test("forward: another answer than 2xx is an error with its status; a redirect is not followed", async (t) => {
  let asked = 0;
  const target = await server(t, (_, response) => {
    asked += 1;
    response.writeHead(302, { location: "/elsewhere" }).end();
  });
  const { status_code, error } = await forward(target, DELIVERY, on);
  assert.deepEqual([status_code, error, asked], [302, "the answer was 302", 1]);
});

test("forward: nobody there, a server that hangs, one that cuts the line, and the end of the session", async (t) => {
  const nobody = await forward(new URL("http://127.0.0.1:1/"), DELIVERY, on);
  assert.deepEqual([nobody.status_code, nobody.error], [null, "nothing listens there"]);
  const hanging = await server(t, () => {});
  assert.equal((await forward(hanging, DELIVERY, on, 50)).error, "no answer within 0.05 s");
  const cutting = await server(t, (request) => request.socket.destroy());
  assert.equal((await forward(cutting, DELIVERY, on)).error, "the connection was cut");
  assert.equal((await forward(hanging, DELIVERY, AbortSignal.abort())).status_code, null);
});

test("parse_target: an http(s) URL and nothing else", () => {
  assert.equal(parseTarget("http://localhost:4242/hook").href, "http://localhost:4242/hook");
  for (const text of ["localhost:4242", "4242", "ftp://x/", ""])
    assert.throws(() => parseTarget(text), InvalidArgumentError);
});
