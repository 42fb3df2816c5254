import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { breakingChanges } from "./openapi-breaking.ts";

// biome-ignore lint/suspicious/noExplicitAny: a test reaches into whatever the description holds.
type Any = any;
const text = readFileSync(join(import.meta.dirname, "../gateway/openapi.json"), "utf8");
const PAYMENTS = "/v1/payments";

/** The breaks that one edit of the real description makes. */
function breaksOf(edit: (document: Any) => void): string[] {
  const after = JSON.parse(text);
  edit(after);
  return breakingChanges(JSON.parse(text), after);
}

const create = (document: Any) => document.components.schemas.CreatePaymentRequest;
const payment = (document: Any) => document.components.schemas.Payment;

test("breaking: the description against itself breaks nothing", () => {
  assert.deepEqual(
    breaksOf(() => {}),
    [],
  );
});

test("breaking: what a client calls, sends and reads must stay", () => {
  const edits: [sentence: RegExp, edit: (document: Any) => void][] = [
    [/^GET \/v1\/payments is gone$/, (d) => delete d.paths[PAYMENTS].get],
    [/was called createPayment and is called pay/, (d) => (d.paths[PAYMENTS].post.operationId = "pay")],
    [/does not answer 201/, (d) => delete d.paths[PAYMENTS].post.responses["201"]],
    [/201 lacks the header Location/, (d) => delete d.paths[PAYMENTS].post.responses["201"].headers.Location],
    [/asks for query status/, (d) => (d.paths[PAYMENTS].get.parameters.find(isStatus).required = true)],
    [/does not take query status any more/, (d) => d.paths[PAYMENTS].get.parameters.splice(2, 1)],
    [/body asks for rail/, (d) => create(d).required.push("rail")],
    [/body: rail is gone/, (d) => delete create(d).properties.rail],
    [/body: rail does not take null/, (d) => (create(d).properties.rail.type = "string")],
    [/body: rail has a lower maxLength/, (d) => (create(d).properties.rail.maxLength = 8)],
    [/body: amount_minor has a higher minimum/, (d) => (create(d).properties.amount_minor.minimum = 100)],
    [/body: client_ref changed its pattern/, (d) => (create(d).properties.client_ref.pattern = "^x$")],
    [/201: net_minor is gone/, (d) => delete payment(d).properties.net_minor],
    [/201: net_minor may now be null/, (d) => (payment(d).properties.net_minor.type = ["integer", "null"])],
    [/201: net_minor may be missing/, (d) => payment(d).required.splice(payment(d).required.indexOf("net_minor"), 1)],
    [/201: expires_at changed its format/, (d) => (payment(d).properties.expires_at.format = "date")],
    [/201: failure: code is gone/, (d) => delete d.components.schemas.Failure.properties.code],
    [/the event payment.success is gone/, (d) => delete d.webhooks["payment.success"]],
    [
      /event payment.success: data: amount may now be integer/,
      (d) => (d.components.schemas.WebhookEvent.properties.data.properties.amount.type = "integer"),
    ],
  ];
  for (const [sentence, edit] of edits) {
    const breaks = breaksOf(edit);
    assert.ok(
      breaks.some((one) => sentence.test(one)),
      `${sentence}: ${breaks.join("; ") || "nothing"}`,
    );
  }
});

test("breaking: what only adds, describes or allows more is no break", () => {
  const edits: ((document: Any) => void)[] = [
    (d) => (d.paths["/v1/new"] = d.paths[PAYMENTS]),
    (d) => (payment(d).properties.more = { type: "string" }),
    (d) => (create(d).properties.more = { type: "string" }),
    (d) => (create(d).properties.rail.maxLength = 800),
    (d) => (create(d).properties.amount_minor.description = "Another sentence."),
    (d) => payment(d).properties.status.enum.push("disputed"),
    (d) => delete d.paths[PAYMENTS].post.responses["502"],
    (d) => (d.paths[PAYMENTS].post.responses["418"] = { description: "A refusal." }),
  ];
  for (const edit of edits) assert.deepEqual(breaksOf(edit), [], String(edit));
});

function isStatus({ name }: Any): boolean {
  return name === "status";
}
