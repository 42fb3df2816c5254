// The simulator's payment page: where a person approves, declines or cancels a payment that moves no money. Rails knows
// what a token stands for and what a decision does; this is only its face.

import { create } from "@bufbuild/protobuf";
import {
  DecideSimulatorPageRequestSchema,
  GetSimulatorPageRequestSchema,
  RailsService,
  type SimulatorPage,
} from "@cauri/proto/es/cauri/rails/v1/rails_pb";
import type { Log } from "@cauri/rpc/log";
import { meaningOf } from "@cauri/rpc/reasons";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { textProblem } from "./body.ts";
import { Html, html, sendPage } from "./html.ts";
import { refusalFor } from "./invoke.ts";
import type { Upstreams } from "./upstream.ts";

const TIMEOUT_MS = 8_000;
/** `decision=approve` and nothing else. */
const BODY_LIMIT = 1_024;
const DECISIONS = ["approve", "decline", "cancel"];
/** After a decision the browser is sent to the merchant's page, which is HTTPS; a policy without it would stop it. */
const FORMS = "'self' https:";

const RESULTS: { readonly [state: string]: { readonly title: string; readonly text: string } } = {
  approved: { title: "Payment approved", text: "The payment was approved. You can close this page." },
  declined: { title: "Payment declined", text: "The payment was declined. Nothing was paid." },
  cancelled: { title: "Payment cancelled", text: "The payment was cancelled. Nothing was paid." },
  expired: { title: "Payment expired", text: "The time to pay is over. Ask the merchant for a new payment." },
};

type Params = { Params: { token: string } };

export function mountSimulatorPage(app: FastifyInstance, upstreams: Upstreams, log: Log): void {
  const { getSimulatorPage, decideSimulatorPage } = RailsService.method;
  const url = "/simulator/:token";
  app.get<Params>(url, async (request, reply) => {
    const ask = create(GetSimulatorPageRequestSchema, { token: request.params.token });
    return show(request, reply, log, () => upstreams.call(getSimulatorPage, ask, callFor(request)), sendState);
  });
  const config = { body: { limit: BODY_LIMIT, json: false, may_be_empty: false } };
  app.post<Params>(url, { config }, async (request, reply) => {
    const body = request.body instanceof Uint8Array ? Buffer.from(request.body).toString("utf8") : "";
    const decision = new URLSearchParams(body).get("decision") ?? "";
    if (!DECISIONS.includes(decision)) return sendProblem(reply, 422, "Please choose approve, decline or cancel.");
    const ask = create(DecideSimulatorPageRequestSchema, { token: request.params.token, decision });
    return show(request, reply, log, () => upstreams.call(decideSimulatorPage, ask, callFor(request)), sendDecided);
  });
}

function callFor(request: FastifyRequest) {
  return { caller: { request_id: request.id }, timeout_ms: TIMEOUT_MS };
}

async function show(
  request: FastifyRequest,
  reply: FastifyReply,
  log: Log,
  ask: () => Promise<{ message: SimulatorPage }>,
  send: (reply: FastifyReply, page: SimulatorPage, token: string) => FastifyReply,
): Promise<FastifyReply> {
  const { token } = request.params as Params["Params"];
  // What no token can hold names no payment, and no database is asked for it.
  if (textProblem(token) !== undefined) return sendProblem(reply, 404, "There is no payment at this address.");
  try {
    const { message } = await ask();
    return send(reply, message, token);
  } catch (error) {
    const refusal = refusalFor(error, "simulator page", request.id, log);
    const { http, code } = meaningOf(refusal.refused);
    request.refused = code;
    if (http === 404) return sendProblem(reply, 404, "There is no payment at this address.");
    if (http < 500) return sendProblem(reply, http, "This payment cannot be decided any more.");
    return sendProblem(
      reply.header("Retry-After", "1"),
      http,
      "The page is unavailable for a moment. Please reload it.",
    );
  }
}

/** After a decision the payer goes back to the merchant; without an address the page shows the result, safe to reload. */
function sendDecided(reply: FastifyReply, page: SimulatorPage, token: string): FastifyReply {
  const next = webUrl(page.nextUrl) ?? `/simulator/${encodeURIComponent(token)}`;
  return reply.header("Cache-Control", "no-store").header("Referrer-Policy", "no-referrer").redirect(next, 303);
}

function sendState(reply: FastifyReply, page: SimulatorPage): FastifyReply {
  const result = RESULTS[page.state];
  const main = html`${NOTICE}
<p class="soft">Payment to</p><h1>${page.merchantName || "a merchant"}</h1>
<p class="amount">${page.amount}</p>
<dl>${page.description ? html`<dt>For</dt><dd>${page.description}</dd>` : new Html("")}<dt>Reference</dt><dd>${page.reference}</dd></dl>
${result === undefined ? FORM : html`<p role="status"><strong>${result.title}.</strong> ${result.text}</p>${link(page.nextUrl)}`}`;
  return sendPage(reply, { title: `${result?.title ?? "Payment"} – simulator`, main, narrow: true, forms: FORMS });
}

const NOTICE = html`<p class="notice">Simulator: no real money moves on this page.</p>`;

const FORM = html`<form method="post">
<button class="go" name="decision" value="approve">Approve the payment</button>
<button class="stop" name="decision" value="decline">Decline the payment</button>
<button name="decision" value="cancel">Cancel and go back</button>
</form>`;

function link(next_url: string): Html {
  const url = webUrl(next_url);
  return url === null ? new Html("") : html`<p><a href="${url}" rel="noreferrer">Back to the merchant</a></p>`;
}

/** Only the web: never `javascript:` or `data:`, whatever was stored. */
function webUrl(text: string): string | null {
  const url = URL.parse(text);
  return url !== null && (url.protocol === "https:" || url.protocol === "http:") ? url.href : null;
}

function sendProblem(reply: FastifyReply, status: number, sentence: string): FastifyReply {
  return sendPage(reply, {
    status,
    title: "Simulator",
    main: html`${NOTICE}<h1>Sorry</h1><p role="alert">${sentence}</p>`,
    narrow: true,
    forms: FORMS,
  });
}
