// `cauri webhook …`: an endpoint's secret; what was sent to it, and sending it again.

import { randomUUID } from "node:crypto";
import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import { AccountService } from "@cauri/proto/es/cauri/accounts/v1/accounts_pb";
import {
  DeliverySchema,
  DeliveryService,
  ListAttemptsResponseSchema,
  ListDeliveriesResponseSchema,
} from "@cauri/proto/es/cauri/webhooks/v1/deliveries_pb";
import { RotatedEndpointSchema, WebhookService } from "@cauri/proto/es/cauri/webhooks/v1/webhooks_pb";
import type { JsonObject } from "@cauri/rpc/json-form";
import { type Command, InvalidArgumentError, Option } from "commander";
import { cell, command, group, jsonOf, rowsOf } from "./command.ts";
import type { Door } from "./door.ts";
import { parseInstant, parseSeconds } from "./inputs.ts";
import { type PageOptions, paged, pageOf, withMore } from "./page.ts";
import { type Column, type Shown, table } from "./print.ts";

const EXAMPLE_ACCOUNT = "acct_01KAE8QK8Q5V6ZJ9T2N4B7C1XW";
const EXAMPLE_DELIVERY = "dl_01KAE8QK8Q5V6ZJ9T2N4B7C1XW";

/** Rows of a page: the most, and as many as the house gives where no limit is given. */
const PAGE = [100, 25] as const;

type SpanOptions = { endpoint?: bigint; from?: Timestamp; to?: Timestamp };
type ReplayOptions = SpanOptions & { includeDelivered?: true; run?: string };

export function webhookCommands(): Command {
  const secret = group("secret", "Signing secrets of endpoints.", [rotateSecret()]);
  const commands = [secret, deliveries(), attempts(), replay()];
  return group("webhook", "Endpoints' secrets, what was sent, and sending it again.", commands);
}

function rotateSecret(): Command {
  return command<{ overlap?: number }>(
    "rotate <account> <endpoint>",
    "Give an endpoint a new secret; the old one signs beside it for the overlap, or ends at once with --overlap 0s.",
    `webhook secret rotate ${EXAMPLE_ACCOUNT} 42 --overlap 24h`,
    (made) =>
      made.option(
        "--overlap <duration>",
        "how long the old secret goes on, at most 7d; 24h unless given",
        parseSeconds,
      ),
    async ({ args: [account = "", endpoint = ""], options: { overlap }, door }) => {
      const rotated = await door(WebhookService).rotateEndpointSecret({
        accountId: account,
        endpointId: parseEndpoint(endpoint),
        // A call that is repeated on the way must not rotate twice.
        rotationId: randomUUID(),
        ...(overlap === undefined ? {} : { overlapS: BigInt(overlap) }),
      });
      const json = jsonOf(RotatedEndpointSchema, rotated);
      const people = [
        `Endpoint ${cell(json, "id")} of ${account} signs with a new secret: ${cell(json, "secret")}`,
        rotated.previousSecret === undefined
          ? "The old one has ended."
          : `The old one signs beside it until ${cell(json, "previous_secret_until")}.`,
      ];
      return { json, people: people.join("\n") };
    },
  );
}

function deliveries(): Command {
  return command<SpanOptions & PageOptions & { status?: string }>(
    "deliveries <account>",
    "List what was sent or waits, the newest event first, with every attempt.",
    `webhook deliveries ${EXAMPLE_ACCOUNT} --endpoint 42 --status failed --from 2026-11-20`,
    (made) =>
      paged(spanned(made), ...PAGE).addOption(
        new Option("--status <status>", "in this status alone").choices(["pending", "delivered", "failed"]),
      ),
    async ({ args: [account = ""], options, door }) => {
      const { status } = options;
      const asked = { accountId: account, ...spanOf(options), ...pageOf(options), ...(status ? { status } : {}) };
      const page = await door(DeliveryService).listDeliveries(asked);
      if (page.data.length === 0) await requireAccount(door, account);
      const json = jsonOf(ListDeliveriesResponseSchema, page);
      return { json, people: withMore(table(rowsOf(json), DELIVERY_COLUMNS, "No deliveries."), json) };
    },
  );
}

function attempts(): Command {
  return command<PageOptions>(
    "attempts <account> <delivery>",
    "List the attempts of one delivery with the beginning of each answer, the newest first.",
    `webhook attempts ${EXAMPLE_ACCOUNT} ${EXAMPLE_DELIVERY}`,
    (made) => paged(made, ...PAGE),
    async ({ args: [account = "", delivery = ""], options, door }) => {
      const asked = { accountId: account, deliveryId: delivery, ...pageOf(options) };
      const json = jsonOf(ListAttemptsResponseSchema, await door(DeliveryService).listAttempts(asked));
      return { json, people: withMore(table(rowsOf(json), ATTEMPT_COLUMNS, "No attempts yet."), json) };
    },
  );
}

function replay(): Command {
  return command<ReplayOptions>(
    "replay <account> [delivery]",
    "Send one delivery again; or with --endpoint, --from, --to everything that failed there, in batches.",
    `webhook replay ${EXAMPLE_ACCOUNT} --endpoint 42 --from 2026-11-20T08:00:00Z --to 2026-11-20T09:00:00Z`,
    (made) =>
      spanned(made)
        .option("--include-delivered", "what was delivered too, not only what failed")
        .option("--run <id>", "go on with a replay that was interrupted: it sends nothing twice"),
    async ({ args: [account = "", delivery], options, door }) => {
      const { endpoint, from, to, includeDelivered, run = randomUUID() } = options;
      const selects = endpoint !== undefined || from !== undefined || to !== undefined;
      if (delivery === undefined && !selects)
        throw new InvalidArgumentError("Name a delivery, or select by --endpoint, --from, --to.");
      if (delivery !== undefined && (selects || includeDelivered))
        throw new InvalidArgumentError("Name a delivery, or select by options: not both.");
      return delivery === undefined
        ? await replayMany(door, account, run, options)
        : await replayOne(door, account, run, delivery);
    },
  );
}

async function replayOne(door: Door, account: string, run: string, delivery: string): Promise<Shown> {
  const asked = { accountId: account, deliveryId: delivery, replayId: run };
  const json = jsonOf(DeliverySchema, await door(DeliveryService).replayDelivery(asked));
  const held = { inactive: " once its endpoint is active again", suspended: " when its endpoint's suspension ends" };
  const when = held[json["held_by"] as keyof typeof held] ?? "";
  const people =
    json["status"] === "pending"
      ? `Delivery ${delivery} of ${cell(json, "event")} is sent${when || " now"}.`
      : `Delivery ${delivery} was sent again by this run before: it is ${cell(json, "status")}.`;
  return { json, people };
}

/** Batch after batch; where it has come stands on standard error, with the word that goes on after an interruption. */
async function replayMany(door: Door, account: string, run: string, options: ReplayOptions): Promise<Shown> {
  const asked = {
    accountId: account,
    replayId: run,
    includeDelivered: options.includeDelivered === true,
    ...spanOf(options),
  };
  let replayed = 0;
  for (let cursor: string | undefined; ; ) {
    const batch = await door(DeliveryService).replayDeliveries({
      ...asked,
      ...(cursor === undefined ? {} : { cursor }),
    });
    replayed += batch.replayed;
    cursor = batch.nextCursor;
    if (cursor === undefined) break;
    process.stderr.write(`${replayed} are sent again so far (--run ${run} goes on after an interruption)\n`);
  }
  if (replayed === 0) await requireAccount(door, account);
  const people =
    replayed === 0
      ? "Nothing there has ended that could be sent again."
      : `${replayed} are sent again; what waits for a suspended or inactive endpoint stands in \`webhook deliveries\`.`;
  return { json: { replayed, run }, people };
}

/** Nothing found is told of an account that is there: of a mistyped one it would be a lie. */
async function requireAccount(door: Door, account: string): Promise<void> {
  await door(AccountService).getAccount({ accountId: account });
}

const DELIVERY_COLUMNS: readonly Column<JsonObject>[] = [
  ["EVENT AT", (row) => cell(row, "occurred_at")],
  ["DELIVERY", (row) => cell(row, "delivery_id")],
  ["ENDPOINT", (row) => cell(row, "endpoint_id")],
  ["EVENT", (row) => cell(row, "event")],
  ["OPERATION", (row) => cell(row, "operation_id")],
  ["STATUS", (row) => cell(row, "status")],
  ["ATTEMPTS", (row) => attemptsOf(row).length],
  ["LAST RESULT", (row) => lastResult(row)],
  ["NEXT", (row) => cell(row, "held_by") ?? cell(row, "next_attempt_at")],
];

const ATTEMPT_COLUMNS: readonly Column<JsonObject>[] = [
  ["AT", (row) => cell(row, "at")],
  ["STATUS", (row) => cell(row, "status_code")],
  ["MS", (row) => cell(row, "duration_ms")],
  ["ERROR", (row) => cell(row, "error")],
  ["ANSWER", (row) => String(cell(row, "answer") ?? "").slice(0, 80)],
];

function attemptsOf(row: JsonObject): readonly JsonObject[] {
  return Array.isArray(row["attempts"]) ? (row["attempts"] as JsonObject[]) : [];
}

function lastResult(row: JsonObject) {
  const last = attemptsOf(row).at(-1);
  return last === undefined ? null : (cell(last, "error") ?? cell(last, "status_code"));
}

function spanned(made: Command): Command {
  return made
    .option("--endpoint <number>", "this endpoint's alone", parseEndpoint)
    .option("--from <time>", "events from this instant on, e.g. 2026-11-20T08:00:00Z or 2026-11-20", parseInstant)
    .option("--to <time>", "events before this instant", parseInstant);
}

function spanOf({ endpoint, from, to }: SpanOptions) {
  if (from !== undefined && to !== undefined && timestampMs(from) >= timestampMs(to))
    throw new InvalidArgumentError("--from must be before --to.");
  return {
    ...(endpoint === undefined ? {} : { endpointId: endpoint }),
    ...(from === undefined ? {} : { from }),
    ...(to === undefined ? {} : { to }),
  };
}

function parseEndpoint(text: string): bigint {
  if (!/^[1-9]\d{0,15}$/.test(text)) throw new InvalidArgumentError(`${text} is not the number of an endpoint.`);
  return BigInt(text);
}
