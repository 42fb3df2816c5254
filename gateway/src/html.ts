// The little HTML that the gateway writes itself: escaped by construction, without a script, under the strictest policy.

import { createHash } from "node:crypto";
import type { FastifyReply } from "fastify";

/** Text that is HTML already. */
export class Html {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** A template in which every value is escaped unless it is Html itself. */
export function html(parts: TemplateStringsArray, ...values: (string | number | Html | readonly Html[])[]): Html {
  return new Html(parts.reduce((text, part, index) => `${text}${written(values[index - 1])}${part}`));
}

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

function written(value: string | number | Html | readonly Html[] | undefined): string {
  if (value instanceof Html) return value.text;
  if (Array.isArray(value)) return value.map((item: Html) => item.text).join("");
  return escapeHtml(String(value ?? ""));
}

const STYLE = `
:root{color-scheme:light dark;--ink:#1c1b19;--soft:#6b675f;--paper:#faf8f4;--card:#fff;--line:#e4dfd5;--shell:#7a4b12;--go:#14663c;--stop:#9b2c2c}
@media(prefers-color-scheme:dark){:root{--ink:#f1ede5;--soft:#aaa396;--paper:#171613;--card:#211f1b;--line:#3a372f;--shell:#e0ad6a;--go:#5fc08d;--stop:#ee8f8f}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,sans-serif}
main{max-width:64rem;margin:0 auto;padding:1.5rem 1rem 4rem}
main.card{max-width:26rem;margin:6vh auto;padding:1.5rem;background:var(--card);border:1px solid var(--line);border-radius:.75rem}
h1{font-size:1.35rem;margin:.2rem 0 1rem}h2{font-size:1.1rem;margin:2.2rem 0 .6rem;border-bottom:1px solid var(--line);padding-bottom:.3rem}h3{font-size:1rem;margin:1.4rem 0 .3rem}
.notice{margin:-1.5rem -1.5rem 1.2rem;padding:.55rem 1.5rem;border-bottom:1px solid var(--line);border-radius:.75rem .75rem 0 0;color:var(--shell);font-size:.9rem;font-weight:600}
.amount{font-size:2rem;font-weight:650;margin:.2rem 0}.soft{color:var(--soft)}
dl{display:grid;grid-template-columns:auto 1fr;gap:.25rem 1rem;margin:1rem 0}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
form{display:grid;gap:.6rem;margin-top:1.4rem}
button{font:inherit;font-weight:600;padding:.75rem 1rem;border-radius:.5rem;border:1px solid currentColor;background:transparent;color:var(--ink);cursor:pointer}
button.go{background:var(--go);border-color:var(--go);color:var(--card)}button.stop{color:var(--stop)}
button:focus-visible,a:focus-visible,summary:focus-visible{outline:3px solid var(--shell);outline-offset:2px}
a{color:var(--shell)}code,pre{font:.875rem/1.5 ui-monospace,monospace}code{overflow-wrap:anywhere}
pre{overflow-x:auto;padding:.75rem;border:1px solid var(--line);border-radius:.5rem;background:var(--card)}
.table{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.925rem}th,td{text-align:left;vertical-align:top;padding:.35rem .6rem .35rem 0;border-bottom:1px solid var(--line)}th code{white-space:nowrap}td>p,td>ul{margin:0}td>p+p{margin-top:.4rem}
details{border:1px solid var(--line);border-radius:.5rem;background:var(--card);margin:.5rem 0;padding:.5rem .8rem}summary{cursor:pointer}.verb{display:inline-block;min-width:4.2rem;font-weight:700}
`;

const STYLE_HASH = createHash("sha256").update(STYLE).digest("base64");

/** Sends a whole page. `forms` are the places that its forms may lead to, redirects included. */
export function sendPage(
  reply: FastifyReply,
  page: { status?: number; title: string; main: Html; narrow?: boolean; forms?: string },
): FastifyReply {
  const text = html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="robots" content="noindex"><title>${page.title}</title><style>${new Html(STYLE)}</style></head>
<body><main class="${page.narrow === true ? "card" : "wide"}">${page.main}</main></body></html>
`;
  return reply
    .code(page.status ?? 200)
    .headers({
      "Content-Security-Policy": `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; base-uri 'none'; frame-ancestors 'none'; form-action ${page.forms ?? "'none'"}`,
      "Referrer-Policy": "no-referrer",
      "X-Content-Type-Options": "nosniff",
      "Cache-Control": "no-store",
    })
    .type("text/html; charset=utf-8")
    .send(text.text);
}
