// The RPCs of this room: decode, call, encode.

import { failureCode } from "@cauri/money/failure";
import { type Refusal, refuse, refuseField } from "@cauri/money/refusal";
import {
  AttemptOutcome,
  type CollectRequest,
  type CollectResponse,
  RailsServiceService,
  SendKind,
  type SendRequest,
  type SimulatorPage,
} from "@cauri/proto/ts/cauri/rails/v1/rails";
import type { DrainRequest, DrainResponse } from "@cauri/proto/ts/cauri/shared/v1/shared";
import { type Call, type Handlers, type Service, service } from "@cauri/rpc/server";
import { type Asked, askFor } from "./ask.ts";
import { type AttemptState, isOutgoing } from "./attempt.ts";
import { type Attempt, readAttempt } from "./attempt-store.ts";
import { receiveCallback } from "./callback.ts";
import { type Collected, collect } from "./collect.ts";
import { checkDestination, maskDestination, readDestination, writeDestination } from "./destination.ts";
import type { House } from "./house.ts";
import type { CollectOrder, SendOrder } from "./order.ts";
import { checkPayer, isEmpty, maskPayer, writePayer } from "./payer.ts";
import type { Page } from "./simulator/charge.ts";
import { SIMULATOR } from "./simulator/connector.ts";
import type { Simulator } from "./simulator/simulator.ts";
import { copyInVault, keepDetails } from "./vault-store.ts";
import { withhold } from "./withhold.ts";

export type Room = House & {
  /** Null where none is configured. */
  readonly simulator: Simulator | null;
  readonly drain: (request: DrainRequest, deadline_ms: number) => Promise<DrainResponse | Refusal>;
};

type Rpcs = Handlers<typeof RailsServiceService>;

export function railsService(room: Room): Service {
  return service(RailsServiceService, {
    keepPayer: keepPayer(room),
    async collect(request, call) {
      return encodeCollected(await collect(room, decodeOrder(request, call), call.deadline_ms));
    },
    keepDestination: keepDestination(room),
    copyDestination: copyDestination(room),
    async send(request, call) {
      return encodeCollected(await collect(room, decodeSending(request, call), call.deadline_ms));
    },
    async withhold({ order, failureCode: code }, call) {
      if (order === undefined) throw new Error("a Withhold names no order");
      return encodeAttempt(
        await withhold(room, decodeSending(order, call), code === undefined ? null : failureCode(code)),
      );
    },
    async ask({ operationId }, { caller }) {
      const asked = await askFor(room, operationId, caller.account, caller.mode);
      // Never begun is the same to the caller as never heard of by the rail.
      return asked === null ? { ...NOTHING, outcome: AttemptOutcome.NOT_FOUND } : encodeAsked(asked);
    },
    async receiveCallback({ connector, headers, body }) {
      const { authentic, connector_known } = await receiveCallback(room, connector, headers, body);
      return { authentic, connectorKnown: connector_known };
    },
    async getSimulatorPage({ token }) {
      return encodePage(await room.simulator?.page(token));
    },
    async decideSimulatorPage({ token, decision }) {
      if (decision !== "approve" && decision !== "decline" && decision !== "cancel") {
        return refuseField("decision", "must be approve, decline or cancel");
      }
      return encodePage(await room.simulator?.decide(token, decision));
    },
    advanceSimulator: advanceSimulator(room),
    drain: (request, call) => room.drain(request, call.deadline_ms),
  });
}

function keepPayer(room: Room): Rpcs["keepPayer"] {
  return async ({ operationId, country, payer, fieldPath }, { caller }) => {
    const checked = checkPayer(payer ?? {}, country, fieldPath);
    if ("refused" in checked) return checked;
    if (isEmpty(checked)) return {};
    const owner = { operation_id: operationId, account: caller.account, mode: caller.mode };
    await keepDetails(room.pool, room.cipher, owner, { plain: writePayer(checked), retention: "transient" });
    return maskPayer(checked);
  };
}

function keepDestination(room: Room): Rpcs["keepDestination"] {
  return async ({ operationId, country, destination, fieldPath, lasting }, { caller }) => {
    if (destination === undefined) return refuseField(fieldPath, "is required");
    const checked = checkDestination({ ...NO_DESTINATION, ...destination }, country, fieldPath);
    if ("refused" in checked) return checked;
    const owner = { operation_id: operationId, account: caller.account, mode: caller.mode };
    const retention = lasting ? "lasting" : "transient";
    await keepDetails(room.pool, room.cipher, owner, { plain: writeDestination(checked), retention });
    return maskDestination(checked);
  };
}

function copyDestination(room: Room): Rpcs["copyDestination"] {
  return async ({ keptAs, operationId }, { caller }) => {
    const owner = { operation_id: operationId, account: caller.account, mode: caller.mode };
    const plain = await copyInVault(room.pool, room.cipher, keptAs, owner);
    return plain === null
      ? refuse("not_found", "no such destination is kept")
      : maskDestination(readDestination(plain));
  };
}

function advanceSimulator(room: Room): Rpcs["advanceSimulator"] {
  return async ({ operationId, to }, { caller }) => {
    if (to !== "success" && to !== "failed" && to !== "refunded") {
      return refuseField("to", "must be success, failed or refunded");
    }
    const attempt = await readAttempt(room.pool, operationId);
    const is_ours = attempt?.account === caller.account && attempt.mode === caller.mode;
    if (!is_ours || attempt.connector !== SIMULATOR || room.simulator === null) return { moved: false };
    // Money that came in goes back by a refund of its own.
    if (to === "refunded" && !isOutgoing(attempt.kind)) return { moved: false };
    return { moved: await room.simulator.advance(attempt.reference, to, attempt.kind) };
  };
}

function decodeOrder(request: CollectRequest, { caller }: Call): CollectOrder {
  if (request.expiresAt === undefined) throw new Error("a Collect names no end of the payer's time");
  return {
    kind: "collection",
    operation_id: request.operationId,
    account: caller.account,
    mode: caller.mode,
    reference: request.reference,
    amount_minor: request.amountMinor,
    asset_id: request.assetId,
    currency: request.currency,
    scale: request.scale,
    platform_id: request.platformId,
    expires_at: request.expiresAt,
    rails: request.rails,
    forced: request.forced,
    description: request.description ?? null,
    return_url: request.returnUrl ?? null,
    cancel_url: request.cancelUrl ?? null,
    merchant_name: request.merchantName,
  };
}

function decodeSending(request: SendRequest, { caller }: Call): SendOrder {
  const order = {
    operation_id: request.operationId,
    account: caller.account,
    mode: caller.mode,
    reference: request.reference,
    amount_minor: request.amountMinor,
    asset_id: request.assetId,
    currency: request.currency,
    scale: request.scale,
    platform_id: request.platformId,
    // Nothing ends the asking for money that may have left.
    expires_at: null,
    rails: request.rails,
    forced: request.forced,
    description: request.description ?? null,
    merchant_name: request.merchantName,
  } as const;
  if (request.kind === SendKind.PAYOUT) return { ...order, kind: "payout" };
  const { ofOperationId: of_operation_id, ofReference: of_reference } = request;
  if (request.kind !== SendKind.REFUND) throw new Error("a Send names no kind that is sent out");
  if (of_operation_id === undefined || of_reference === undefined) throw new Error("a refund names no collection");
  return { ...order, kind: "refund", of_operation_id, of_reference };
}

const NO_DESTINATION = {
  phone: undefined,
  iban: undefined,
  accountNumber: undefined,
  bankCode: undefined,
  name: undefined,
};

const NOTHING: CollectResponse = { outcome: AttemptOutcome.UNSPECIFIED, rail: "", version: 0n };

const OUTCOMES: { readonly [S in AttemptState]: AttemptOutcome } = {
  // A call under way and a lost one are the same to the caller: it may have happened.
  sending: AttemptOutcome.UNKNOWN,
  unknown: AttemptOutcome.UNKNOWN,
  pending: AttemptOutcome.PENDING,
  success: AttemptOutcome.SUCCESS,
  failed: AttemptOutcome.FAILED,
  cancelled: AttemptOutcome.CANCELLED,
  returned: AttemptOutcome.RETURNED,
  withheld: AttemptOutcome.WITHHELD,
  ready: AttemptOutcome.NOT_FOUND,
};

function encodeCollected({ attempt, nothing_out }: Collected): CollectResponse {
  const known = encodeAttempt(attempt);
  if (nothing_out === "refused") return { ...known, outcome: AttemptOutcome.REFUSED };
  return nothing_out === "unavailable" ? { ...known, outcome: AttemptOutcome.UNAVAILABLE } : known;
}

/** Of what is still open the rail's own word just now counts: it may have answered nothing, or know nothing. */
function encodeAsked({ attempt, answer }: Asked): CollectResponse {
  const known = encodeAttempt(attempt);
  const is_open = known.outcome === AttemptOutcome.PENDING || known.outcome === AttemptOutcome.UNKNOWN;
  if (!is_open || answer === null) return known;
  if (answer.outcome === "not_found") return { ...known, outcome: AttemptOutcome.NOT_FOUND };
  return answer.outcome === "pending" ? known : { ...known, outcome: AttemptOutcome.UNKNOWN };
}

function encodeAttempt(attempt: Attempt): CollectResponse {
  return {
    outcome: OUTCOMES[attempt.state],
    rail: attempt.state === "ready" ? "" : (attempt.rail ?? ""),
    paymentUrl: attempt.payment_url ?? undefined,
    deepLink: attempt.deep_link ?? undefined,
    qr: attempt.qr ?? undefined,
    failureCode: attempt.failure_code ?? undefined,
    railAmountMinor: attempt.rail_amount_minor ?? undefined,
    railCurrency: attempt.rail_currency ?? undefined,
    version: attempt.version,
  };
}

function encodePage(page: Page | null | undefined): SimulatorPage | Refusal {
  if (page == null) return refuse("not_found", "there is no such payment page");
  return {
    reference: page.reference,
    amount: page.amount,
    merchantName: page.merchant_name,
    description: page.description,
    state: page.state,
    nextUrl: page.next_url,
  };
}
