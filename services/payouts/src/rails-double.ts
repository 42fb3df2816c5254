// Rails in memory, for the room's database tests: one attempt per operation, never two; what the rail says is chosen by
// the test.

import { refuse } from "@cauri/money/refusal";
import { OperationNews } from "@cauri/proto/ts/cauri/events/v1/events";
import {
  AttemptOutcome,
  type CollectResponse,
  type RailsServiceService,
  type SendRequest,
} from "@cauri/proto/ts/cauri/rails/v1/rails";
import type { Handlers } from "@cauri/rpc/server";

export type Said = Partial<CollectResponse> & { readonly outcome: AttemptOutcome };
type Attempt = { readonly reference: string; readonly said: Said; readonly version: bigint };

const NEWS = {
  pending: AttemptOutcome.PENDING,
  success: AttemptOutcome.SUCCESS,
  failed: AttemptOutcome.FAILED,
  returned: AttemptOutcome.RETURNED,
} as const;

export class RailsDouble {
  readonly #attempts = new Map<string, Attempt>();
  /** References under which an operation went out: one, or the operation was paid twice. */
  readonly sent = new Map<string, string[]>();
  /** What a rail says to a new attempt; may wait, and may tell news before it answers. */
  script: (request: SendRequest) => Promise<Said> | Said = () => ({ outcome: AttemptOutcome.PENDING });
  /** Field that the vault finds wrong. */
  wrong: string | null = null;
  /** What a rail reports to have paid; of an operation it is the amount. */
  paid: { readonly railAmountMinor: bigint; readonly railCurrency: string } = {
    railAmountMinor: 10_000n,
    railCurrency: "XOF",
  };

  handlers(): Partial<Handlers<typeof RailsServiceService>> {
    return {
      keepDestination: async ({ destination }) =>
        this.wrong === null
          ? { type: destination?.type ?? "", phone: "+22507*****00" }
          : refuse("invalid_request", "not a valid phone number for CI", { field: this.wrong }),
      copyDestination: async () => ({ type: "mobile_wallet", phone: "+22507*****00" }),
      send: async (request) => {
        const known = this.#attempts.get(request.operationId);
        if (known === undefined || nothingOut(known.said.outcome)) await this.#send(request);
        return this.#known(request.operationId);
      },
      withhold: async ({ order, failureCode }) => {
        const id = order?.operationId ?? "";
        const known = this.#attempts.get(id);
        if (known === undefined || nothingOut(known.said.outcome)) {
          const said = { outcome: AttemptOutcome.WITHHELD, failureCode };
          this.#attempts.set(id, { reference: order?.reference ?? "", said, version: 0n });
        }
        return this.#known(id);
      },
      ask: async ({ operationId }) => this.#known(operationId),
      advanceSimulator: async () => ({ moved: false }),
    };
  }

  /** The rail changes its word; the news of it, to be delivered by the test, come back. */
  say(id: string, kind: keyof typeof NEWS, more: Partial<Said> = {}): Uint8Array {
    const now = this.#attempts.get(id);
    const version = (now?.version ?? 0n) + 1n;
    const said: Said = { ...(kind === "success" ? this.paid : {}), ...more, outcome: NEWS[kind] };
    this.#attempts.set(id, { reference: now?.reference ?? "", said, version });
    return newsOf(id, kind, version, said);
  }

  async #send(request: SendRequest): Promise<void> {
    const { operationId: id, reference } = request;
    const said = await this.script(request);
    if (!nothingOut(said.outcome)) this.sent.set(id, [...(this.sent.get(id) ?? []), reference]);
    // News that the script told meanwhile are newer than its own answer.
    const now = this.#attempts.get(id);
    if (now !== undefined && !nothingOut(now.said.outcome)) return;
    this.#attempts.set(id, { reference, said, version: nothingOut(said.outcome) ? 0n : 1n });
  }

  #known(id: string): CollectResponse {
    const attempt = this.#attempts.get(id);
    const outcome = attempt?.said.outcome ?? AttemptOutcome.NOT_FOUND;
    const there = !nothingOut(outcome) && outcome !== AttemptOutcome.NOT_FOUND;
    return { rail: there ? "mtn_momo" : "", ...attempt?.said, outcome, version: attempt?.version ?? 0n };
  }
}

export function newsOf(id: string, kind: string, version: bigint, said: Partial<Said> = {}): Uint8Array {
  return OperationNews.encode(
    OperationNews.fromPartial({
      event: `payout.${kind}`,
      id,
      status: kind,
      version,
      failureCode: said.failureCode ?? "",
      railCurrency: said.railCurrency ?? "",
      rail: "mtn_momo",
      ...(said.railAmountMinor === undefined ? {} : { railAmountMinor: said.railAmountMinor }),
    }),
  ).finish();
}

function nothingOut(outcome: AttemptOutcome): boolean {
  return outcome === AttemptOutcome.REFUSED || outcome === AttemptOutcome.UNAVAILABLE;
}
