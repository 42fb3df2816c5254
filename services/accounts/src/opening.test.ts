import assert from "node:assert/strict";
import { test } from "node:test";
import { houseOpenings, merchantOpenings } from "./opening.ts";

const places = [
  { platform_id: "plt_a", asset_id: "ast_xof" },
  { platform_id: "plt_b", asset_id: "ast_xof" },
];

test("merchant_openings: one per place, in both books", () => {
  const openings = merchantOpenings("acct_1", places);
  assert.deepEqual(
    openings.map(({ code, book }) => `${code} ${book}`),
    [
      "merchant:acct_1:plt_a test",
      "merchant:acct_1:plt_a live",
      "merchant:acct_1:plt_b test",
      "merchant:acct_1:plt_b live",
    ],
  );
});

test("house_openings: four per platform and book, and fees once per asset and book", () => {
  const openings = houseOpenings(places);
  assert.equal(openings.length, 2 * (2 * 4 + 1));
  assert.equal(openings.filter(({ code }) => code === "fees").length, 2);
  assert.equal(
    new Set(openings.map(({ code, asset_id, book }) => `${code} ${asset_id} ${book}`)).size,
    openings.length,
  );
});
