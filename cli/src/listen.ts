// `cauri listen`: an account's test events on a developer's machine, printed and forwarded as they happen.

import { type ListenNotice, ListenService } from "@cauri/proto/es/cauri/webhooks/v1/listen_pb";
import type { Command } from "commander";
import { command, type ForScripts } from "./command.ts";
import { findPublicDoor, openPublicDoor, type Where } from "./door.ts";
import { type Forwarded, forward, parseTarget } from "./forward.ts";
import { parseWords } from "./inputs.ts";
import { createLanes } from "./lanes.ts";
import { followListener, type Heard } from "./listening.ts";
import { printable } from "./print.ts";

/** As many as go to a registered endpoint at once (CAURI_WEBHOOK_PARALLEL_ENDPOINT). */
const PARALLEL = 20;

type ListenOptions = { forwardTo?: URL; events?: readonly string[]; secret?: string; standardHeaders?: true };

export function listenCommand(): Command {
  return command<ListenOptions>(
    "listen",
    "Print an account's test events as they happen, and forward them to this machine without a public URL.",
    "listen --forward-to http://localhost:4242/hook --key sk_test_…",
    (made) =>
      publicDoor(made)
        .option(
          "--forward-to <url>",
          "post each event here, signed as a real delivery; nothing is tried again",
          parseTarget,
        )
        .option("--events <names>", "these alone, e.g. payment.success,payout.failed; all unless given", parseWords)
        .option("--secret <whsec>", "sign with the secret of an earlier session; a fresh one unless given")
        .option("--standard-headers", "send the Standard Webhooks headers too")
        .addHelpText("after", HELP),
    async ({ options }) => {
      await listen(options);
      return null;
    },
  );
}

const HELP = `
The key is a test key of scope can_manage_webhooks; live events go to registered endpoints alone. The session goes on
through restarts and lost connections: nothing is lost that is younger than an hour, and nothing comes twice.
It ends by Ctrl-C. With --json each line is one document: first the session, then an event a line.`;

/** The options of a command that acts as the merchant. */
export function publicDoor(made: Command): Command {
  return made
    .option("--key <key>", "API key (else CAURI_API_KEY, else the local demo account's test key)")
    .option("--api-url <url>", "address of the public door (else CAURI_API_URL, else the data folder's local.json)");
}

async function listen(options: ListenOptions & Where & ForScripts): Promise<void> {
  const { forwardTo, events = [], secret, standardHeaders = false } = options;
  const house = findPublicDoor(options, process.env);
  const client = openPublicDoor(options, process.env)(ListenService);
  const session = new AbortController();
  const end = () => session.abort();
  // The signal may come twice, from the terminal and from the starter; whoever reads the output may leave first.
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, end);
  process.stdout.on("error", end);

  const lanes = createLanes(PARALLEL);
  const heard = followListener(
    (opening, signal) => client.listen(opening, { signal, timeoutMs: 0 }),
    { secret, events, standard_headers: standardHeaders },
    session.signal,
  );
  const say = createTeller(options.json === true, { url: house.url, forward_to: forwardTo?.href ?? null });
  try {
    for await (const one of heard) {
      if (one.kind !== "notice") {
        say.line(one);
        continue;
      }
      const { notice } = one;
      await lanes.add(operationOf(notice), async () => {
        const forwarded = forwardTo === undefined ? null : await forward(forwardTo, notice, session.signal);
        if (!session.signal.aborted) say.event(notice, forwarded);
      });
    }
  } finally {
    await lanes.idle();
  }
}

type Teller = {
  event(notice: ListenNotice, forwarded: Forwarded | null): void;
  line(heard: Exclude<Heard, { kind: "notice" }>): void;
};

type Session = { readonly url: string; readonly forward_to: string | null };

/** Events go to standard output; what befalls the line is for people, on standard error. */
function createTeller(json: boolean, session: Session): Teller {
  const out = (text: string) => process.stdout.write(`${text}\n`);
  const aside = (text: string) => process.stderr.write(`${text}\n`);
  let is_open = false;
  return {
    event: (notice, forwarded) => out(json ? eventJson(notice, forwarded) : eventLine(notice, forwarded)),
    line: (heard) => {
      if (heard.kind === "lost") aside(`The line is lost (${printable(heard.why)}); connecting again.`);
      if (heard.kind === "skipped") aside("Events between the last one and an hour ago are not told.");
      if (heard.kind !== "opened") return;
      if (is_open) aside("Connected again.");
      else if (json) out(JSON.stringify({ listening: { ...session, secret: heard.secret } }));
      else out(opened(session, heard.secret));
      is_open = true;
    },
  };
}

function opened({ url, forward_to }: Session, secret: string): string {
  const to = forward_to === null ? "" : ` and forwarding them to ${forward_to}`;
  return `Listening to test events of ${url}${to}.\nSigned with the secret ${secret} (Ctrl-C ends)`;
}

function eventJson({ eventId, event, cursor, headers, body }: ListenNotice, forwarded: Forwarded | null): string {
  const sent = Object.fromEntries(headers.map(({ name, value }) => [name, value]));
  return JSON.stringify({ event_id: eventId, event, cursor, headers: sent, body, forwarded });
}

function eventLine({ body }: ListenNotice, forwarded: Forwarded | null): string {
  const { created, event, data } = JSON.parse(body) as {
    created: string;
    event: string;
    data: { reference: string; amount: string; currency: string; status: string };
  };
  const facts = [created, event.padEnd(18), data.reference, `${data.amount} ${data.currency}`, data.status];
  return printable([...facts, ...(forwarded === null ? [] : [`-> ${resultOf(forwarded)}`])].join("  "));
}

function resultOf({ status_code, duration_ms, error }: Forwarded): string {
  return status_code === null ? `not delivered: ${error}` : `${status_code} in ${duration_ms} ms`;
}

/** Events of one operation are forwarded in their order. */
function operationOf({ body }: ListenNotice): string {
  return (JSON.parse(body) as { data: { id: string } }).data.id;
}
