import assert from "node:assert/strict";
import { test } from "node:test";
import { MAX_MINOR } from "@cauri/money/amount";
import { isRefusal } from "@cauri/money/refusal";
import { type Corridor, checkFee, checkPage, isOpenFor, type PricedLine, pageOf, pickLine, placeOf } from "./terms.ts";

const line = (account_id: string | null, platform_id: string | null, percent_bps: number): PricedLine => ({
  operation: "collection",
  asset_id: "ast_xof",
  account_id,
  platform_id,
  percent_bps,
  fixed_minor: 0n,
  min_minor: null,
  max_minor: null,
  updated_at: new Date(0),
});

const corridor: Corridor = {
  corridor_id: "cor_a",
  platform_id: "plt_a",
  platform_name: "A",
  country: "CI",
  destination_types: ["mobile_wallet"],
  asset_id: "ast_xof",
  direction: "collection",
  rails: [{ rail: "wave", needs_phone: false }],
  is_open: true,
  min_amount_minor: 100n,
  max_amount_minor: 200n,
};

test("pick_line: account and platform, then account, then platform, then the default", () => {
  const asked = { operation: "collection", asset_id: "ast_xof", account_id: "acct_1", platform_id: "plt_a" } as const;
  const lines = [line(null, null, 1), line(null, "plt_a", 2), line("acct_1", null, 3), line("acct_1", "plt_a", 4)];
  for (let kept = lines.length; kept > 0; kept -= 1) {
    assert.equal(pickLine(lines.slice(0, kept), asked)?.percent_bps, kept);
    assert.equal(pickLine(lines.slice(0, kept).reverse(), asked)?.percent_bps, kept);
  }
  assert.equal(pickLine([], asked), null);
});

test("pick_line: another account's, platform's, asset's or operation's line is never taken", () => {
  const asked = { operation: "collection", asset_id: "ast_xof", account_id: "acct_1", platform_id: "plt_a" } as const;
  const others = [
    line("acct_2", null, 1),
    line("acct_2", "plt_a", 1),
    line(null, "plt_b", 1),
    line("acct_1", "plt_b", 1),
  ];
  assert.equal(pickLine(others, asked), null);
  assert.equal(pickLine([line(null, null, 1)], { ...asked, asset_id: "ast_ghs" }), null);
  assert.equal(pickLine([line(null, null, 1)], { ...asked, operation: "payout" }), null);
  assert.equal(pickLine([line("acct_1", null, 1)], { ...asked, account_id: null }), null);
});

test("is_open_for: live mode needs something that serves live rails, a place its ledger accounts, a corridor a rail", () => {
  const none = new Set<string>();
  assert.ok(isOpenFor(corridor, "test", "", none));
  assert.ok(isOpenFor(corridor, "live", "simulator", none));
  assert.ok(!isOpenFor(corridor, "live", "", none));
  assert.ok(!isOpenFor({ ...corridor, is_open: false }, "test", "simulator", none));
  assert.ok(!isOpenFor({ ...corridor, rails: [] }, "test", "simulator", none));
  assert.ok(!isOpenFor(corridor, "test", "simulator", new Set([placeOf(corridor)])));
});

test("check_fee: every bad number is refused with its field", () => {
  const good = { percent_bps: 150, fixed_minor: 0n, min_minor: 10n, max_minor: 20n };
  assert.equal(checkFee(good, MAX_MINOR), null);
  for (const [bad, field] of [
    [{ ...good, percent_bps: 10_001 }, "percent_bps"],
    [{ ...good, percent_bps: -1 }, "percent_bps"],
    [{ ...good, fixed_minor: -1n }, "fixed_minor"],
    [{ ...good, max_minor: MAX_MINOR + 1n }, "max_minor"],
    [{ ...good, min_minor: 21n }, "min_minor"],
  ] as const) {
    assert.equal(checkFee(bad, MAX_MINOR)?.field, field);
  }
});

test("page_of: pages, their end, and a page past the end", () => {
  const rows = [1, 2, 3, 4, 5];
  assert.deepEqual(pageOf(rows, { page: 1, per_page: 2 }), {
    data: [1, 2],
    page: 1,
    per_page: 2,
    total: 5n,
    has_more: true,
  });
  assert.deepEqual(pageOf(rows, { page: 3, per_page: 2 }).data, [5]);
  assert.equal(pageOf(rows, { page: 3, per_page: 2 }).has_more, false);
  assert.deepEqual(pageOf(rows, { page: 9, per_page: 2 }).data, []);
});

test("check_page: defaults, and bounds with their field", () => {
  assert.deepEqual(checkPage(undefined, undefined), { page: 1, per_page: 25 });
  for (const [page, per_page, field] of [
    [0, 25, "page"],
    [1, 0, "per_page"],
    [1, 101, "per_page"],
  ] as const) {
    const answer = checkPage(page, per_page);
    assert.equal(isRefusal(answer) ? answer.field : "", field);
  }
});
