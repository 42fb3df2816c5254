// One creation of every kind that the public description has, for tests that go through all of them: whoever adds a
// creating route gives it a body here, or they say so.

import { fund, type Merchant, merchant, operate, paymentBody, payoutBody } from "./house.ts";

/** Bodies of creations by their path; what must be there first is asked of `made`, the ids by path so far. */
export type Creations = { readonly [path: string]: (made: { readonly [path: string]: string }) => object };

/** An approved account with money, every option and product, a price of withdrawals and somewhere to withdraw to. */
export async function equipped(name: string): Promise<Merchant> {
  const made = await merchant(name);
  const { account_id } = made;
  await operate("cauri.accounts.v1.AccountService/SetAccount", {
    account_id,
    options: [{ name: "internal_transfers", on: true }],
    products: ["instant_payment", "tontine"].map((product) => ({ name: product, on: true })),
  });
  const line = { operation: "FEE_OPERATION_WITHDRAWAL", asset_id: "ast_xof", account_id };
  await operate("cauri.accounts.v1.ReferenceService/SetFee", { ...line, percent_bps: 0, fixed_minor: 0 });
  await operate("cauri.accounts.v1.AccountService/SetSettlement", {
    account_id,
    platform_id: "plt_mtn_ci",
    destination: { type: "mobile_wallet", phone: "+2250504030201", name: "Awa Kone" },
  });
  await fund(account_id, 1_000_000);
  return made;
}

/** `to` is the account that transfers go to, `url` where webhooks are received. Payments come first: refunds need one. */
export function creations(to: string, url: string): Creations {
  const moved = { amount_minor: 1_000, asset_id: "ast_xof" };
  return {
    "/v1/payments": () => paymentBody("01"),
    "/v1/payouts": () => payoutBody("01"),
    "/v1/payout-requests": () => ({ ...moved, platform_id: "plt_mtn_ci" }),
    "/v1/refunds": (made) => ({ payment_id: made["/v1/payments"], amount_minor: 1_000 }),
    "/v1/transfers": () => ({ ...moved, platform_id: "plt_mtn_ci", destination_account_id: to }),
    "/v1/rebalances": () => ({ ...moved, from_platform_id: "plt_mtn_ci", to_platform_id: "plt_orange_ci" }),
    "/v1/webhooks": () => ({ url }),
  };
}
