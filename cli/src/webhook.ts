// `cauri webhook …`: an endpoint's secret; what was sent to it, and sending it again.

import { randomUUID } from "node:crypto";
import { RotatedEndpointSchema, WebhookService } from "@cauri/proto/es/cauri/webhooks/v1/webhooks_pb";
import { type Command, InvalidArgumentError } from "commander";
import { cell, command, group, jsonOf } from "./command.ts";
import { parseSeconds } from "./inputs.ts";

const EXAMPLE_ACCOUNT = "acct_01KAE8QK8Q5V6ZJ9T2N4B7C1XW";

export function webhookCommands(): Command {
  const secret = group("secret", "Signing secrets of endpoints.", [rotateSecret()]);
  return group("webhook", "Endpoints' secrets, what was sent, and sending it again.", [secret]);
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

function parseEndpoint(text: string): bigint {
  if (!/^[1-9]\d{0,15}$/.test(text)) throw new InvalidArgumentError(`${text} is not the number of an endpoint.`);
  return BigInt(text);
}
