// The interface description, for programs and for people: /v1/openapi.json with a key, the same document without one
// under /docs, and a page that shows it in Swagger UI. Every file comes from here; nothing is fetched from anywhere else.

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";

const require = createRequire(import.meta.url);
const { version } = require("swagger-ui-dist/package.json") as { version: string };

/**
 * The reader's own files carry its version in their address, so they may be kept for ever; the page itself may not.
 * Swagger UI sets a few styles on elements, which is why `style-src` has 'unsafe-inline'; scripts are files of ours.
 */
const FOREVER = "public, max-age=31536000, immutable";
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const SAFE = { "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer" };

const PAGE = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>Cauri API</title><link rel="icon" href="data:,"><link rel="stylesheet" href="/docs/reader-${version}.css">
<link rel="stylesheet" href="/docs/page.css"></head>
<body><div id="reader"><noscript>This page needs a script, which comes from this address alone. The same text for
programs: <a href="/docs/openapi.json">openapi.json</a>.</noscript></div>
<script src="/docs/reader-${version}.js"></script><script src="/docs/page.js"></script></body></html>
`;

/**
 * Nothing can be sent from the page: keys do not belong into browsers. The validator's badge, an address of its maker,
 * is off; links into the document open what they name.
 */
const START = `SwaggerUIBundle({ url: "/docs/openapi.json", dom_id: "#reader", deepLinking: true, validatorUrl: null,
  supportedSubmitMethods: [], defaultModelsExpandDepth: 1, docExpansion: "list", displayRequestDuration: false });
`;

const STYLE = `body{margin:0}.swagger-ui .info{margin:24px 0}.swagger-ui .scheme-container,.swagger-ui .authorization__btn{display:none}
@media(max-width:640px){.swagger-ui .wrapper{padding:0 8px}.swagger-ui .opblock-summary-description{display:none}}
`;

/** What a file of the page is: its type, its text or the place where it lies, and for how long it may be kept. */
type File = { readonly type: string; readonly text: () => Promise<string>; readonly keep: string };

export function mountDocs(app: FastifyInstance, document: object): void {
  const json = JSON.stringify(document);
  app.get("/v1/openapi.json", async (_request, reply) => reply.type("application/json; charset=utf-8").send(json));
  const reader = (name: string) => () => readFile(require.resolve(`swagger-ui-dist/${name}`), "utf8");
  const own = (text: string) => async () => text;
  const files: { readonly [path: string]: File } = {
    "/docs/openapi.json": { type: "application/json", text: own(json), keep: "no-cache" },
    "/docs/page.js": { type: "text/javascript", text: own(START), keep: "no-cache" },
    "/docs/page.css": { type: "text/css", text: own(STYLE), keep: "no-cache" },
    [`/docs/reader-${version}.js`]: { type: "text/javascript", text: reader("swagger-ui-bundle.js"), keep: FOREVER },
    [`/docs/reader-${version}.css`]: { type: "text/css", text: reader("swagger-ui.css"), keep: FOREVER },
  };
  for (const [path, file] of Object.entries(files)) app.get(path, serve(file));
  app.get("/docs", async (_request, reply) =>
    reply
      .headers({ ...SAFE, "Content-Security-Policy": POLICY, "Cache-Control": "no-cache" })
      .type("text/html; charset=utf-8")
      .send(PAGE),
  );
}

/** Read and pressed at the first look, then kept: a gateway whose page nobody opens pays nothing for it. */
function serve({ type, text, keep }: File): (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply> {
  let pressed: Promise<Buffer> | undefined;
  return async ({ headers }, reply) => {
    reply.headers({ ...SAFE, "Cache-Control": keep, Vary: "Accept-Encoding" }).type(`${type}; charset=utf-8`);
    if (!/\bgzip\b/.test(String(headers["accept-encoding"] ?? ""))) return reply.send(await text());
    pressed ??= text().then((plain) => promisify(gzip)(plain));
    return reply.header("Content-Encoding", "gzip").send(await pressed);
  };
}
