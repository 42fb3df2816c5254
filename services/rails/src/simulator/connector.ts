// The simulator as a connector: what the port asks, put to the simulated operator in the way of any operator.

import type { Connector } from "../connector.ts";
import { newsOfMessage, readMessage } from "./message.ts";
import { type Operator, OperatorFault } from "./operator.ts";
import { simulatedPayoutRails, simulatedRails } from "./outcome.ts";
import { SIGNATURE_HEADER, verifyCallback } from "./signature.ts";

export const SIMULATOR = "simulator";

export function simulatorConnector(operator: Operator, secret: string): Connector {
  return {
    name: SIMULATOR,
    rails: [...new Set([...Object.keys(simulatedRails), ...simulatedPayoutRails])],
    is_simulated: true,
    collect: (charge) => operator.collect(charge),
    payOut: (disbursement) => operator.payOut(disbursement),
    giveBack: (reversal) => operator.giveBack(reversal),
    ask: (sent) => operator.ask(sent.reference),
    classify(fault) {
      // Its books are tables of ours: that they can't be reached says nothing about what is in them.
      if (!(fault instanceof OperatorFault)) return { outcome: "unknown" };
      if (fault.status === null) return { outcome: "unavailable" };
      return { outcome: fault.status >= 500 ? "unknown" : "refused" };
    },
    readCallback(headers, body, now_ms) {
      if (!verifyCallback(secret, headers[SIGNATURE_HEADER], body, now_ms)) return { authentic: false };
      const message = readMessage(body);
      if (message === null) return { authentic: false };
      const { event_id, reference } = message;
      return { authentic: true, callback_id: event_id, reference, news: newsOfMessage(message) };
    },
  };
}
