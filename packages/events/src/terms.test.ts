import assert from "node:assert/strict";
import test from "node:test";
import { FeeOperation, type ReferenceServiceService, type Terms } from "@cauri/proto/ts/cauri/accounts/v1/reference";
import { houseCaller } from "@cauri/rpc/caller";
import type { Promisified } from "@cauri/rpc/client";
import { openTerms } from "./terms.ts";

const CALLER = houseCaller("acct_a", "test", "req_1");
const OTHER = houseCaller("acct_b", "test", "req_2");

function open(answer: Partial<Terms> = { corridorKnown: true }) {
  const asked: string[] = [];
  const getTerms = async (_: unknown, { caller }: { caller: { account: string } }) => {
    asked.push(caller.account);
    return { rails: [], fee: undefined, ...answer } as unknown as Terms;
  };
  return {
    asked,
    terms: openTerms({ getTerms } as unknown as Promisified<ReferenceServiceService>, FeeOperation.COLLECTION),
  };
}

test("terms: asked once, also by callers of the same moment, and for each account anew", async () => {
  const { asked, terms } = open();
  await Promise.all([1, 2, 3].map(() => terms.get(CALLER, "plt_a", "ast_xof")));
  await terms.get(CALLER, "plt_a", "ast_xof");
  await terms.get(OTHER, "plt_a", "ast_xof");
  assert.deepEqual(asked, ["acct_a", "acct_b"]);
});

test("terms: forgotten for one account, or for everyone", async () => {
  const { asked, terms } = open();
  const both = async () => {
    await terms.get(CALLER, "plt_a", "ast_xof");
    await terms.get(OTHER, "plt_a", "ast_xof");
  };
  await both();
  terms.forget("acct_b");
  await both();
  terms.forget("");
  await both();
  assert.deepEqual(asked, ["acct_a", "acct_b", "acct_b", "acct_a", "acct_b"]);
});

test("terms: an unknown corridor is asked for again", async () => {
  const { asked, terms } = open({ corridorKnown: false });
  await terms.get(CALLER, "plt_x", "ast_xof");
  await terms.get(CALLER, "plt_x", "ast_xof");
  assert.equal(asked.length, 2);
});

test("terms: after five seconds they are asked for again", async (t) => {
  const { asked, terms } = open();
  let now = 0;
  t.mock.method(performance, "now", () => now);
  await terms.get(CALLER, "plt_a", "ast_xof");
  now = 4_999;
  await terms.get(CALLER, "plt_a", "ast_xof");
  now = 5_000;
  await terms.get(CALLER, "plt_a", "ast_xof");
  assert.equal(asked.length, 2);
});
