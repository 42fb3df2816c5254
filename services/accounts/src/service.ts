// Every RPC of the room beside the function that answers it.

import { AccountServiceService, KeyServiceService } from "@cauri/proto/ts/cauri/accounts/v1/accounts";
import { ReferenceServiceService } from "@cauri/proto/ts/cauri/accounts/v1/reference";
import { type Service, service } from "@cauri/rpc/server";
import {
  approveAccount,
  closeAccount,
  createAccount,
  getAccount,
  listEveryAccount,
  reinstateAccount,
  setAccount,
  suspendAccount,
} from "./account-service.ts";
import type { House } from "./house.ts";
import { createKey, endKey, listKeysOf, resolve, rotateKey } from "./key-service.ts";
import { getPlaces } from "./places-service.ts";
import {
  getTerms,
  listAllCorridors,
  listAssets,
  listCorridorsFor,
  listFees,
  openOrCloseCorridor,
  setFee,
} from "./reference-service.ts";
import { advanceClock, sandboxFund } from "./sandbox-service.ts";
import { getSettlement, setSettlementAccount } from "./settlement-service.ts";

export function accountsServices(house: House): readonly Service[] {
  return [
    service(AccountServiceService, {
      createAccount: (request) => createAccount(house, request),
      getAccount: (request) => getAccount(house, request),
      listAccounts: (request) => listEveryAccount(house, request),
      approveAccount: (request) => approveAccount(house, request),
      suspendAccount: (request) => suspendAccount(house, request),
      reinstateAccount: (request) => reinstateAccount(house, request),
      closeAccount: (request) => closeAccount(house, request),
      setAccount: (request) => setAccount(house, request),
      setSettlement: (request, call) => setSettlementAccount(house, request, call.request_id),
      sandboxFund: (request, call) => sandboxFund(house, request, call.request_id),
      advanceClock: (request) => advanceClock(house, request),
      drain: (request, call) => house.drain(request, call.deadline_ms),
    }),
    service(KeyServiceService, {
      createKey: (request) => createKey(house, request),
      rotateKey: (request) => rotateKey(house, request),
      revokeKey: (request) => endKey(house, request),
      listKeys: (request) => listKeysOf(house, request),
      resolveKey: (request) => resolve(house, request),
    }),
    service(ReferenceServiceService, {
      listAssets: (request) => listAssets(house, request),
      listCorridors: (request, call) => listCorridorsFor(house, request, call.caller),
      getTerms: (request, call) => getTerms(house, request, call.caller),
      getPlaces: (request, call) => getPlaces(house, request, call.caller.account),
      getSettlement: (_request, call) => getSettlement(house, call.caller.account),
      listAllCorridors: () => listAllCorridors(house),
      setCorridor: (request) => openOrCloseCorridor(house, request),
      setFee: (request) => setFee(house, request),
      listFees: () => listFees(house),
    }),
  ];
}
