import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Code, ConnectError } from "@connectrpc/connect";
import { InvalidArgumentError } from "commander";
import { findHouse, findPublicDoor, Refused, refusedBy } from "./door.ts";

const LOCAL = JSON.stringify({
  admin_url: "http://127.0.0.1:1",
  operator_token: "local",
  base_url: "http://127.0.0.1:3",
  test_key: "sk_test_demo",
});

function localHouse(text: string): { data: string; forget: () => void } {
  const data = mkdtempSync(join(tmpdir(), "cauri-cli-"));
  writeFileSync(join(data, "local.json"), text);
  return { data, forget: () => rmSync(data, { recursive: true }) };
}

test("find_house: the option wins over the environment, the environment over the data folder", () => {
  const { data, forget } = localHouse(LOCAL);
  try {
    assert.deepEqual(findHouse({ data }, {}), { url: "http://127.0.0.1:1", token: "local" });
    assert.deepEqual(findHouse({}, { CAURI_DATA: data }), { url: "http://127.0.0.1:1", token: "local" });
    const env = { CAURI_ADMIN_URL: "http://127.0.0.1:2/", CAURI_OPERATOR_TOKEN: "env" };
    assert.deepEqual(findHouse({ data }, env), { url: "http://127.0.0.1:2", token: "env" });
    assert.deepEqual(findHouse({ url: "https://house.example", token: "given" }, env), {
      url: "https://house.example",
      token: "given",
    });
  } finally {
    forget();
  }
});

test("find_house: the local token never goes to an address that was named alone", () => {
  const { data, forget } = localHouse(LOCAL);
  try {
    assert.throws(() => findHouse({ url: "http://elsewhere.example", data }, {}), InvalidArgumentError);
    assert.throws(() => findHouse({ url: "ftp://x", token: "t" }, {}), InvalidArgumentError);
  } finally {
    forget();
  }
});

test("find_public_door: by the same rules, with a key; the demo account's own key on its own house alone", () => {
  const { data, forget } = localHouse(LOCAL);
  try {
    assert.deepEqual(findPublicDoor({ data }, {}), { url: "http://127.0.0.1:3", token: "sk_test_demo" });
    assert.equal(findPublicDoor({ data, key: "sk_test_mine" }, { CAURI_API_KEY: "sk_test_env" }).token, "sk_test_mine");
    assert.equal(findPublicDoor({ data }, { CAURI_API_KEY: "sk_test_env" }).token, "sk_test_env");
    const named = { data, apiUrl: "https://house.example/", key: "sk_test_mine" };
    assert.deepEqual(findPublicDoor(named, {}), { url: "https://house.example", token: "sk_test_mine" });
    assert.throws(() => findPublicDoor({ data, apiUrl: "https://house.example" }, {}), InvalidArgumentError);
    assert.throws(() => findPublicDoor({ data, url: "https://house.example", token: "t" }, {}), /--api-url/);
    assert.throws(() => findPublicDoor({ data }, { CAURI_ADMIN_URL: "https://house.example" }), /--api-url/);
  } finally {
    forget();
  }
});

test("find_public_door: a house without a demo account needs a key", () => {
  const { data, forget } = localHouse(JSON.stringify({ ...JSON.parse(LOCAL), test_key: null }));
  try {
    assert.throws(() => findPublicDoor({ data }, {}), /--key/);
    assert.equal(findPublicDoor({ data, key: "sk_test_mine" }, {}).token, "sk_test_mine");
  } finally {
    forget();
  }
});

test("find_house: no house, or a broken file, is said with what to do", () => {
  assert.throws(() => findHouse({ data: "/nowhere/at/all" }, {}), /npm start/);
  const { data, forget } = localHouse("{");
  try {
    assert.throws(() => findHouse({ data }, {}), Refused);
  } finally {
    forget();
  }
});

test("refused_by: the reason of the house is the code, its absence is told in words of our own", () => {
  const refused = new ConnectError("no such account", Code.NotFound, { "cauri-reason": "not_found" });
  assert.deepEqual([refusedBy(refused).code, refusedBy(refused).message], ["not_found", "no such account"]);
  assert.equal(refusedBy(new ConnectError("x", Code.Unauthenticated)).code, "operator_refused");
  assert.equal(refusedBy(new ConnectError("x", Code.DeadlineExceeded)).code, "temporarily_unavailable");
  assert.equal(refusedBy(new ConnectError("x", Code.Internal)).code, "internal_error");
  assert.throws(() => refusedBy(new TypeError("a bug")), TypeError);
});
