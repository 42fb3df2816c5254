// A first collection by the typed client: node examples/typed-client/main.ts <url> <test key> [connect|grpc-web|grpc]

import { randomUUID } from "node:crypto";
import { type Payment, PaymentStatus, PaymentStatusSchema } from "@cauri/proto/es/cauri/collections/v1/payments_pb";
import { createCauri, exactlyOnce, PROTOCOLS, refusalOf } from "./client.ts";

const [baseUrl, key, word = "connect"] = process.argv.slice(2);
const protocol = PROTOCOLS.find((one) => one === word);
if (baseUrl === undefined || key === undefined || protocol === undefined) {
  console.error(`usage: main.ts <url> <test key> [${PROTOCOLS.join("|")}]`);
  process.exit(2);
}
const cauri = createCauri({ baseUrl, key, protocol });
const stateOf = ({ status }: Payment) => PaymentStatusSchema.value[status]?.localName.toLowerCase();

// Amounts are bigint in minor units. In test mode the last two digits of the phone choose what happens: 00 is paid.
const order = {
  amountMinor: 1_500n,
  assetId: "ast_xof",
  platformId: "plt_mtn_ci",
  payer: { phone: "+2250504030200", name: "Awa Kone" },
};
const created = await exactlyOnce(randomUUID(), (options) => cauri.payments.createPayment(order, options));
console.log(`${created.reference} is ${stateOf(created)}`);

// A shop is told by its webhook; a script asks.
let payment = created;
for (let asked = 0; payment.status !== PaymentStatus.SUCCESS && asked < 20; asked += 1) {
  await new Promise((wake) => setTimeout(wake, 500));
  payment = await cauri.payments.getPayment({ id: created.id });
}
console.log(`${payment.reference} is ${stateOf(payment)}: ${payment.netMinor} of ${payment.amountMinor} are yours`);

// What is refused says why, for programs too.
try {
  await cauri.payments.createPayment({ ...order, payer: { phone: "+225 12" } });
} catch (error) {
  const refusal = refusalOf(error);
  console.log(`refused: ${refusal?.code}, because of ${refusal?.field}`);
}
