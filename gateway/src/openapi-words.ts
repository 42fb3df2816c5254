// Texts of the OpenAPI document that do not come from the proto: the front page, the errors of each status, headers.

import type { DescField } from "@bufbuild/protobuf";
import { ReasonSchema } from "@cauri/proto/es/cauri/api/v1/reason_pb";
import { meaningOf } from "@cauri/rpc/reasons";
import { commentOf } from "./image.ts";
import type { Schema } from "./schema.ts";

export const FRONT_PAGE = `Cauri is a payment gateway for merchant accounts, driven by JSON over HTTPS.

**Mode.** A key with the prefix \`sk_test_\` runs all the code and moves no money; \`sk_live_\` moves real money. Webhook
endpoints see both modes: the 12 characters of an operation's \`reference\` begin with \`TEST\` in test mode, and in live
mode never.

**Amounts** are integers in minor units of the asset, written in digits alone. **Times** are RFC 3339, UTC, with
milliseconds. Every field of an answer is always present; an absent value is \`null\`, an empty list \`[]\`. Unknown fields
of a request are ignored, and \`null\` means absent.

**Idempotency.** Send an \`Idempotency-Key\` with every creation, one key per operation. After a 502, a 503 or no answer at
all repeat the request with the same key: you get the original operation, never a second one.

**Limits.** 300 requests per minute and key; beyond it 429 with \`Retry-After\`.

**Paths.** An operation is found by its id, by its \`reference\` or by your own \`client_ref\`.`;

/** The words of an enum with their comments, as a list. */
export function enumWordsDoc(field: DescField): string {
  if (field.enum === undefined) return "";
  const words = field.enum.values.filter((value) => value.number !== 0);
  return words.map((value) => `- \`${value.localName.toLowerCase()}\`: ${commentOf(value)}`).join("\n");
}

/** Sentences of the reasons, from the comments of the generated descriptor's image. */
export type ReasonTexts = ReadonlyMap<string, string>;

/** Error responses by status, each with the codes that the route can give there; equal ones are written down once. */
export function errorResponses(
  reasons: readonly string[],
  texts: ReasonTexts,
  shared: { [name: string]: Schema },
): { [status: string]: Schema } {
  const by_status = new Map<number, string[]>();
  for (const reason of reasons) {
    const { http } = meaningOf(reason);
    by_status.set(http, [...(by_status.get(http) ?? []), reason]);
  }
  const responses: { [status: string]: Schema } = {};
  for (const [status, words] of [...by_status].sort(([one], [other]) => one - other)) {
    const codes = [...new Set(words.map((word) => meaningOf(word).code))];
    const description = words.map((word) => `\`${meaningOf(word).code}\`: ${texts.get(word) ?? ""}`).join("\n\n");
    const name = [status, ...codes].join("_");
    shared[name] = {
      description,
      headers: {
        // Who is not known has no limit to be told of.
        ...(status === 401 ? { "X-Request-Id": header("RequestId") } : COMMON_HEADERS),
        ...(status === 429 || status === 503 || status === 409 ? { "Retry-After": header("RetryAfter") } : {}),
      },
      content: { "application/json": { schema: errorSchema(codes), examples: errorExamples(words, texts) } },
    };
    responses[String(status)] = { $ref: `#/components/responses/${name}` };
  }
  return responses;
}

/** One answer per code; of a 422 the message begins with the field's path, else it is the reason's own sentence. */
function errorExamples(words: readonly string[], texts: ReasonTexts): { [code: string]: Schema } {
  return Object.fromEntries(
    words.map((word) => {
      const { code } = meaningOf(word);
      const [sentence = ""] = (texts.get(word) ?? "").split(/[.;](?:\s|$)/);
      const plain = `${sentence.charAt(0).toLowerCase()}${sentence.slice(1)}`;
      const message = code === "invalid_request" ? "amount_minor: is required" : plain;
      return [code, { summary: code, value: { error: { code, message } } }];
    }),
  );
}

function errorSchema(codes: readonly string[]): Schema {
  return {
    allOf: [
      { $ref: "#/components/schemas/Error" },
      {
        type: "object",
        properties: {
          error: {
            type: "object",
            properties: { code: { type: "string", enum: [...codes], examples: codes.slice(0, 1) } },
          },
        },
      },
    ],
  };
}

export const ERROR_SCHEMA: Schema = {
  description: "Every failure has this form.",
  type: "object",
  required: ["error"],
  properties: {
    error: {
      description: "What went wrong.",
      type: "object",
      required: ["code", "message"],
      properties: {
        code: {
          description: "A word for programs.",
          type: "string",
          examples: ["invalid_request"],
          enum: [
            ...new Set(
              ReasonSchema.values.filter((v) => v.number !== 0).map((v) => meaningOf(v.localName.toLowerCase()).code),
            ),
          ].filter((code) => code !== "operator_refused"),
        },
        message: {
          description: "A sentence for people; of a 422 it begins with the field's path.",
          type: "string",
          examples: ["amount_minor: is required"],
        },
      },
      additionalProperties: false,
    },
  },
  additionalProperties: false,
};

/** The answer of GET /v1/openapi.json: this document itself. */
export const INTERFACE_SCHEMA: Schema = {
  type: "object",
  required: ["openapi"],
  properties: { openapi: { description: "Version of OpenAPI.", type: "string", examples: ["3.1.0"] } },
};

export function header(name: string): Schema {
  return { $ref: `#/components/headers/${name}` };
}

export const COMMON_HEADERS: { [name: string]: Schema } = {
  "X-Request-Id": header("RequestId"),
  RateLimit: header("RateLimit"),
  "RateLimit-Policy": header("RateLimitPolicy"),
};

export const HEADERS: { [name: string]: Schema } = {
  RequestId: {
    description: "Id of this request: tell it to us when something is wrong. A valid one that you send is kept.",
    schema: { type: "string", examples: ["req_01KAE8W2T8Y3J6X0R9Z5QK7M4N"] },
  },
  RateLimit: {
    description: "What is left of the limit, and the seconds after which a request passes.",
    schema: { type: "string", examples: ['"default";r=299;t=1'] },
  },
  RateLimitPolicy: {
    description: "The limit: requests (q) in a window of seconds (w), per key.",
    schema: { type: "string", examples: ['"default";q=300;w=60'] },
  },
  RetryAfter: {
    description: "Whole seconds after which the same request may pass.",
    schema: { type: "integer", minimum: 1, examples: [1] },
  },
  Location: {
    description: "Path of what was created.",
    schema: { type: "string", examples: ["/v1/payments/pay_01KAE8W2T8Y3J6X0R9Z5QK7M4N"] },
  },
  IdempotentReplayed: {
    description: "`true` when the key was seen before: this is the original operation in its present state.",
    schema: { type: "string", enum: ["true"] },
  },
};

/** Quoted with `\\"` and `\\\\` inside, or bare; a header's outer spaces are never part of it. idempotency-key.ts reads it. */
const IDEMPOTENCY_KEY_FORM = (() => {
  const quoted = String.raw`(?:[ !#-\[\]-~]|\\["\\])`;
  return `^(?:"${quoted}{1,255}"|(?!"${quoted}*"$)[!-~](?:[ -~]{0,253}[!-~])?)$`;
})();

export const IDEMPOTENCY_KEY: Schema = {
  name: "Idempotency-Key",
  in: "header",
  required: false,
  description:
    "One key per operation, 1 to 255 printable ASCII characters, quoted or bare; remembered for at least 24 hours. The same key with the same payload returns the original operation; with another payload 409 `concurrent_request`.",
  schema: { type: "string", pattern: IDEMPOTENCY_KEY_FORM, examples: ["order-1042-payment"] },
};

const EVENTS: { readonly [event: string]: string } = {
  "payment.initiated": "Collection created.",
  "payment.pending": "Awaiting the payer's confirmation.",
  "payment.success": "Collected; the event that counts.",
  "payment.failed": "Collection failed or was cancelled; `data.status` tells which.",
  "payment.test": "Sent only by POST /v1/webhooks/test.",
  "payout.success": "Paid out; the event that counts.",
  "payout.failed": "The payout failed; its funds are available again.",
  "payout.cancelled": "Cancelled by an operator before it was sent; its funds are available again.",
  "payout.refunded": "Returned by the rail after its success; its funds are available again.",
  "refund.success": "The payer has the money back.",
  "refund.failed": "The refund failed; its funds are available again.",
};

/** What an operation of each kind is called in an example. */
const EXAMPLES: { readonly [kind: string]: Schema } = {
  payment: { id: "pay_01KAE8W2T8Y3J6X0R9Z5QK7M4N", reference: "PAY-7F3K9Q2MBX4T" },
  payout: { id: "po_01KAE8W2T8Y3J6X0R9Z5QK7M4N", reference: "PYT-7F3K9Q2MBX4T" },
  refund: { id: "re_01KAE8W2T8Y3J6X0R9Z5QK7M4N", reference: "RFD-7F3K9Q2MBX4T" },
};

export const WEBHOOK_SCHEMA: Schema = {
  description:
    "Body of a delivery. It is a contract of its own: its fields are not those of the resources, and the amount is a decimal text.",
  type: "object",
  required: ["event", "created", "data"],
  properties: {
    event: { description: "Name of the event.", type: "string", examples: ["payment.success"] },
    created: {
      description: "Time of the event.",
      type: "string",
      format: "date-time",
      examples: ["2026-11-20T18:53:00.000Z"],
    },
    data: {
      description: "The operation.",
      type: "object",
      required: ["id", "reference", "merchant_reference", "amount", "currency", "status"],
      properties: {
        id: { description: "Id of the operation.", type: "string", examples: ["pay_01KAE8W2T8Y3J6X0R9Z5QK7M4N"] },
        reference: {
          description: "Platform reference; its 12 characters begin with `TEST` in test mode.",
          type: "string",
          examples: ["PAY-7F3K9Q2MBX4T"],
        },
        merchant_reference: { description: "Your `client_ref`.", type: ["string", "null"], examples: ["order-1042"] },
        amount: {
          description: "Decimal amount with the scale of the currency.",
          type: "string",
          examples: ["1500", "15.00"],
        },
        currency: { description: "ISO 4217 code.", type: "string", examples: ["XOF"] },
        status: { description: "Status of the operation after the event.", type: "string", examples: ["success"] },
      },
    },
  },
};

/** The webhooks section: one entry per event of the kinds of operations that the described paths can create. */
export function webhooks(paths: { readonly [path: string]: unknown }): { [name: string]: Schema } {
  const events = Object.entries(EVENTS).filter(([event]) => Object.hasOwn(paths, `/v1/${event.split(".")[0]}s`));
  return Object.fromEntries(
    events.map(([event, text]) => [
      event,
      {
        post: {
          operationId: `on_${event.replace(".", "_")}`,
          summary: text.replace(/[.;].*$/, ""),
          description: `${text} Answer 2xx within 10 seconds.`,
          tags: ["Webhooks"],
          security: [],
          parameters: deliveryHeaders(event),
          requestBody: {
            required: true,
            content: { "application/json": { schema: eventSchema(event), example: eventExample(event) } },
          },
          responses: {
            "2XX": { description: "Received." },
            default: {
              description:
                "Any other answer, and none at all: tried again 60 s, 5 min, 30 min and 2 h after the previous attempt, 5 attempts in all. After 20 failures in a row the endpoint is suspended for one hour.",
            },
          },
        },
      },
    ]),
  );
}

/** The envelope with this event's name. */
function eventSchema(event: string): Schema {
  return {
    allOf: [
      { $ref: "#/components/schemas/WebhookEvent" },
      { type: "object", properties: { event: { type: "string", const: event, examples: [event] } } },
    ],
  };
}

function eventExample(event: string): Schema {
  const [kind = "", status = ""] = event.split(".");
  const done = { ...EXAMPLES[kind], merchant_reference: "order-1042", amount: "1500" };
  const tried = { id: DELIVERY, reference: "PAY-TEST7F3K9Q2M", merchant_reference: null, amount: "0" };
  const data = { ...(event === "payment.test" ? tried : done), currency: "XOF", status };
  return { event, created: "2026-11-20T18:53:00.000Z", data };
}

const DELIVERY = "evt_01KAE8W2T8Y3J6X0R9Z5QK7M4N";

function deliveryHeaders(event: string): Schema[] {
  const told: [name: string, required: boolean, description: string, schema: Schema][] = [
    [
      "X-Service-Signature",
      true,
      "`t=<unix seconds>,v1=<hex>`: HMAC-SHA256 of `<t>.<raw body>`, keyed with the whole secret of the endpoint; two `v1=` during a rotation, the present secret's first. Refuse a `t` that is more than 300 seconds from now.",
      {
        type: "string",
        pattern: "^t=\\d+(?:,v1=[0-9a-f]{64}){1,2}$",
        examples: [`t=1795200780,v1=${"5257a869e7ecebed".repeat(4)}`],
      },
    ],
    ["X-Service-Event", true, "Name of the event.", { type: "string", const: event }],
    [
      "X-Service-Delivery",
      true,
      "Id of the event, the same for every endpoint, repetition and replay: deduplicate on it.",
      { type: "string", pattern: "^evt_[0-9A-HJKMNP-TV-Z]{26}$", examples: [DELIVERY] },
    ],
    ["X-Service-Mode", false, "Present on events of test mode alone.", { type: "string", const: "test" }],
    [
      "webhook-id",
      false,
      "With `standard_headers` alone: the event's id, the same as `X-Service-Delivery`.",
      { type: "string", examples: [DELIVERY] },
    ],
    [
      "webhook-timestamp",
      false,
      "With `standard_headers` alone: the time of the signature in Unix seconds.",
      { type: "string", pattern: "^\\d+$", examples: ["1795200780"] },
    ],
    [
      "webhook-signature",
      false,
      "With `standard_headers` alone, by the Standard Webhooks specification: `v1,` and the base64 of the HMAC-SHA256 of `<webhook-id>.<webhook-timestamp>.<raw body>`, keyed with the bytes that the secret's base64 stands for; two of them, separated by a space, during a rotation.",
      {
        type: "string",
        pattern: "^v1,[A-Za-z0-9+/]{43}=( v1,[A-Za-z0-9+/]{43}=)?$",
        examples: ["v1,uN9EgDbxK1cYyNL8D2dpYrKyQw2yEXnbC8kDqS3fXgI="],
      },
    ],
    ["User-Agent", true, "The sender.", { type: "string", examples: ["Cauri-Webhooks/1"] }],
  ];
  return told.map(([name, required, description, schema]) => ({ name, in: "header", required, description, schema }));
}
