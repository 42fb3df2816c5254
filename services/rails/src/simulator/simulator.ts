// The simulator, wired: its operator, the deliveries of its callbacks and the connector through which rails uses it.

import type { Connector } from "../connector.ts";
import { simulatorConnector } from "./connector.ts";
import { type Deliveries, type DeliveryOptions, openDeliveries } from "./deliver.ts";
import { type Operator, openOperator } from "./operator.ts";

export type Simulator = Omit<Operator, "collect" | "payOut" | "ask"> &
  Pick<Deliveries, "deliverDue" | "close"> & { readonly connector: Connector };

export type SimulatorOptions = DeliveryOptions & { readonly pay_url: string; readonly delay_ms: number };

/** Null without a secret: callbacks that anybody could sign would be worse than no sandbox. */
export function openSimulator(options: SimulatorOptions): Simulator | null {
  if (options.secret === "") return null;
  const deliveries = openDeliveries(options);
  const operator = openOperator({ ...options, deliverNow: deliveries.deliverNow });
  return { ...operator, ...deliveries, connector: simulatorConnector(operator, options.secret) };
}
