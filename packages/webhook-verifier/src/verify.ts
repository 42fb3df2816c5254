// Verifies a webhook of Cauri over the raw bytes that arrived. No dependencies; Web Crypto and nothing of any runtime's own,
// so that it runs in Node 20 and newer, Deno, Bun, Workers and browsers.

/** A stamp may differ from now by this much, in either direction. */
const TOLERANCE_SECONDS = 300;
/** A real header has one signature, two during a rotation; more than this is somebody who wants us to work. */
const MAX_SIGNATURES = 10;

const SECRET = /^whsec_[A-Za-z0-9+/]{16,}={0,2}$/;
const SECONDS = /^[0-9]{1,12}$/;
const HEX_SHA256 = /^[0-9a-f]{64}$/;
/** 32 bytes leave two spare bits in the last character: only its canonical forms, or a flipped bit could go unnoticed. */
const BASE64_SHA256 = /^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/;
const TEST_REFERENCE = /^[A-Z]{3}-TEST/;

/** The bytes as they arrived. A parsed object or a decoded text is refused: their bytes are no longer what was signed. */
export type RawBody = Uint8Array | ArrayBuffer;

/** `Headers`, or an object of names and values in any case, such as Node's `request.headers`. */
export type RequestHeaders =
  | { get(name: string): string | null }
  | { readonly [name: string]: string | readonly string[] | undefined };

/** What is told about an operation. */
export type WebhookEvent = {
  /** Name in the catalogue, e.g. `payment.success`. */
  readonly event: string;
  /** Time of the event, ISO 8601 in UTC. */
  readonly created: string;
  readonly data: {
    readonly id: string;
    readonly reference: string;
    /** The merchant's own `client_ref`. */
    readonly merchant_reference: string | null;
    /** Decimal amount with the currency's scale: `"1500"` XOF, `"15.00"` GHS. */
    readonly amount: string;
    readonly currency: string;
    readonly status: string;
  };
};

/** Why a request is not a webhook of ours; for a log, or for the answer's body. */
export type Reason =
  | "not_raw_body"
  | "missing_header"
  | "malformed_header"
  | "no_match"
  | "too_old"
  | "in_future"
  | "not_an_event";

export type Verdict =
  | {
      readonly verified: true;
      readonly event: WebhookEvent;
      /** The event is of test mode: no money moved. Endpoints hear both modes. */
      readonly isTest: boolean;
      /** When this attempt was signed. */
      readonly signedAt: Date;
    }
  | { readonly verified: false; readonly reason: Reason; readonly message: string };

export type Options = {
  /** Seconds by which the stamp may differ from now, in either direction; 300 unless given. */
  readonly toleranceSeconds?: number;
  /** Milliseconds since 1970; the system's clock unless given. */
  readonly now?: () => number;
};

/**
 * Verifies the header `X-Service-Signature`. `secret` is the endpoint's whole secret, `whsec_…`; several are tried where
 * several endpoints share a route. Throws only where no secret is configured; whatever a stranger sends is answered.
 */
export async function verifyWebhook(
  body: RawBody,
  headers: RequestHeaders,
  secret: string | readonly string[],
  options: Options = {},
): Promise<Verdict> {
  const keys = secretsOf(secret).map(encode);
  const raw = bytesOf(body);
  if (raw === null) return notRaw();
  const header = headerOf(headers, "x-service-signature");
  if (header === null) return refuse("missing_header", "The request has no X-Service-Signature header.");
  const parts = header.split(",");
  const [t = "", ...further] = parts.filter((part) => part.startsWith("t=")).map((part) => part.slice(2));
  const v1 = parts.filter((part) => part.startsWith("v1=")).map((part) => part.slice(3));
  if (!SECONDS.test(t) || further.length > 0 || !areSignatures(v1, HEX_SHA256))
    return refuse("malformed_header", "X-Service-Signature is not of the form t=<seconds>,v1=<64 hex digits>.");
  const signed = concat(encode(`${t}.`), raw);
  return judge(raw, Number(t), await anyMatches(keys, v1.map(fromHex), signed), options);
}

/** Verifies the headers of the Standard Webhooks specification, which an endpoint with `standard_headers` gets too. */
export async function verifyStandardWebhook(
  body: RawBody,
  headers: RequestHeaders,
  secret: string | readonly string[],
  options: Options = {},
): Promise<Verdict> {
  const keys = secretsOf(secret).map((text) => fromBase64(text.slice("whsec_".length)));
  const raw = bytesOf(body);
  if (raw === null) return notRaw();
  const [id, t, signatures] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) =>
    headerOf(headers, name),
  );
  if (id == null || t == null || signatures == null)
    return refuse("missing_header", "The request lacks webhook-id, webhook-timestamp or webhook-signature.");
  const v1 = signatures
    .split(" ")
    .filter((part) => part.startsWith("v1,"))
    .map((part) => part.slice(3));
  if (!SECONDS.test(t) || !areSignatures(v1, BASE64_SHA256))
    return refuse("malformed_header", "webhook-timestamp is not in seconds, or webhook-signature not v1,<base64>.");
  const signed = concat(encode(`${id}.${t}.`), raw);
  return judge(raw, Number(t), await anyMatches(keys, v1.map(fromBase64), signed), options);
}

/** The stamp is looked at after the signature: whoever reads "too old" knows that the sender was ours. */
function judge(raw: Bytes, t: number, matches: boolean, options: Options): Verdict {
  if (!matches)
    return refuse("no_match", "No signature matches: another secret, or the body is not what was sent, byte for byte.");
  const { toleranceSeconds = TOLERANCE_SECONDS, now = Date.now } = options;
  const ahead = t - Math.floor(now() / 1000);
  // So written that a tolerance or clock that is no number lets nothing pass.
  if (!(Math.abs(ahead) <= toleranceSeconds)) {
    return ahead > 0
      ? refuse("in_future", `The signature's time is ${ahead} s ahead of this machine's clock.`)
      : refuse("too_old", `The signature's time is ${-ahead} s ago.`);
  }
  const event = parseEvent(raw);
  if (event === null) return refuse("not_an_event", "The body is signed, but it is not an event.");
  return { verified: true, event, isTest: TEST_REFERENCE.test(event.data.reference), signedAt: new Date(t * 1000) };
}

/** Every signature is compared with every key, none is skipped; the comparison is Web Crypto's, in constant time. */
async function anyMatches(keys: readonly Bytes[], signatures: readonly Bytes[], signed: Bytes): Promise<boolean> {
  const { subtle } = globalThis.crypto;
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const matches = await Promise.all(
    keys.map(async (bytes) => {
      const key = await subtle.importKey("raw", bytes, algorithm, false, ["verify"]);
      return Promise.all(signatures.map((signature) => subtle.verify("HMAC", key, signature, signed)));
    }),
  );
  return matches.flat().includes(true);
}

type Bytes = Uint8Array<ArrayBuffer>;

function secretsOf(secret: string | readonly string[]): readonly string[] {
  const secrets = typeof secret === "string" ? [secret] : secret;
  if (!Array.isArray(secrets) || secrets.length === 0 || !secrets.every((text) => SECRET.test(text)))
    throw new TypeError("The secret must be the endpoint's whole secret, which begins with whsec_.");
  return secrets;
}

function areSignatures(texts: readonly string[], form: RegExp): boolean {
  return texts.length > 0 && texts.length <= MAX_SIGNATURES && texts.every((text) => form.test(text));
}

function headerOf(headers: RequestHeaders, name: string): string | null {
  if (typeof headers.get === "function") return headers.get(name);
  const [, value] = Object.entries(headers).find(([key]) => key.toLowerCase() === name) ?? [];
  return typeof value === "string" ? value : Array.isArray(value) ? value.join(",") : null;
}

/** A copy, so that nobody can change the bytes between the check and the parsing. */
function bytesOf(body: unknown): Bytes | null {
  if (ArrayBuffer.isView(body)) return new Uint8Array(body.buffer, body.byteOffset, body.byteLength).slice() as Bytes;
  const isBuffer = Object.prototype.toString.call(body) === "[object ArrayBuffer]";
  return isBuffer ? new Uint8Array(body as ArrayBuffer).slice() : null;
}

function parseEvent(raw: Bytes): WebhookEvent | null {
  try {
    const parsed = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(raw)) as WebhookEvent | null;
    return typeof parsed?.event === "string" && typeof parsed.data?.reference === "string" ? parsed : null;
  } catch {
    return null;
  }
}

function encode(text: string): Bytes {
  return new TextEncoder().encode(text) as Bytes;
}

function concat(head: Bytes, body: Bytes): Bytes {
  const whole = new Uint8Array(head.length + body.length);
  whole.set(head);
  whole.set(body, head.length);
  return whole;
}

function fromHex(hex: string): Bytes {
  return Uint8Array.from({ length: hex.length / 2 }, (_, at) => Number.parseInt(hex.slice(at * 2, at * 2 + 2), 16));
}

function fromBase64(text: string): Bytes {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

function notRaw(): Verdict {
  return refuse("not_raw_body", "The body must be the raw bytes: read it before anything parses it (see the README).");
}

function refuse(reason: Reason, message: string): Verdict {
  return { verified: false, reason, message };
}
