// The other end of `engine.bench.ts`: the ledger's service on a port, beside an echo that decodes the same message, does
// nothing and answers the same. Started by the bench as a process of its own.

import { randomBytes } from "node:crypto";
import { systemClock } from "@cauri/money/clock";
import {
  Book,
  type Group,
  LedgerServiceService,
  TransferKind,
  TransferResult,
  TransferState,
} from "@cauri/proto/ts/cauri/ledger/v1/ledger";
import { logger } from "@cauri/rpc/log";
import { service, startServer } from "@cauri/rpc/server";
import { openPool } from "@cauri/store/pool";
import type { GroupOrder } from "./books.ts";
import { startCarry } from "./carry-store.ts";
import { startEngine } from "./engine.ts";
import { ledgerService } from "./service.ts";

export const TOKEN = "a token for a bench that runs for a minute on one machine";
export const FLOAT = "float:plt_bench";
const OPERATION = "tr_01KAE8BENCH";

const definition = { post: { ...LedgerServiceService.post, path: "/cauri.bench.v1.EchoService/Post" } } as const;

/** The same message on another path, in the shape of a generated client. */
export const EchoClient = { service: definition, serviceName: "cauri.bench.v1.EchoService" } as const;

export function groupOf(debit_code: string, credit_code: string, amount: bigint): GroupOrder {
  const rest = { hold_id: null, expires_ms: null, effective_ms: null } as const;
  return {
    ...{ asset_id: "ast_xof", book: "live", operation_id: OPERATION },
    transfers: [{ id: freshUuid(), kind: "post", debit_code, credit_code, amount, ...rest }],
  };
}

export function messageOf(debitCode: string, creditCode: string): Group {
  const rest = { holdId: "", expiresAt: undefined, effectiveAt: undefined };
  return {
    ...{ book: Book.LIVE, assetId: "ast_xof", operationId: OPERATION },
    transfers: [{ id: freshUuid(), kind: TransferKind.POST, debitCode, creditCode, amountMinor: 1n, ...rest }],
  };
}

const RANDOM_BYTES = 10;
let chance = randomBytes(RANDOM_BYTES * 1_000);
let used = 0;

/** A UUIDv7 without the detour over an id's text, so that the bench measures the ledger and not its own callers. */
function freshUuid(): string {
  const time = systemClock().toString(16).padStart(12, "0");
  if (used === chance.length) [chance, used] = [randomBytes(chance.length), 0];
  const random = chance.toString("hex", used, used + RANDOM_BYTES);
  used += RANDOM_BYTES;
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(0, 3)}-8${random.slice(3, 6)}-${random.slice(6, 18)}`;
}

async function serve(url: string): Promise<void> {
  const pool = openPool({ url, name: "bench ledger" });
  const answer = { result: TransferResult.OK, state: TransferState.POSTED };
  const echo = service(definition, {
    post: async ({ groups }) => ({
      groups: groups.map(({ transfers }) => ({
        accepted: true,
        transfers: transfers.map(() => ({ ...answer, recordedAt: new Date(systemClock()) })),
      })),
    }),
  });
  const settings = { CAURI_BIND_HOST: "127.0.0.1", CAURI_RPC_PORT: 0, CAURI_RPC_TOKEN: TOKEN, CAURI_DRAIN_MS: 1_000 };
  const services = [ledgerService({ pool, engine: startEngine({ pool }) }), echo];
  const log = logger("ledger", "warn");
  startCarry(pool, log);
  const { port } = await startServer({ room: "ledger", settings, services, log });
  process.send?.({ port });
}

const url = process.argv[2];
if (process.send !== undefined && url !== undefined) await serve(url);
