import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { readSettings, settingsPage } from "./settings.ts";

const base = {
  NATS_URL: "nats://127.0.0.1:4222",
  CAURI_RPC_TOKEN: "token",
  CAURI_WEBHOOKS_DATABASE_URL: "postgres://localhost/cauri",
  CAURI_ACCOUNTS_ADDRESS: "127.0.0.1:1",
  CAURI_FINGERPRINT_KEY: "key",
  CAURI_VAULT_KEYS: "k:key",
};

test("settings: defaults are typed, and a ladder is a list", () => {
  const settings = readSettings("webhooks", base);
  assert.deepEqual(settings.CAURI_WEBHOOK_LADDER, [60, 300, 1800, 7200]);
  assert.equal(settings.CAURI_WEBHOOK_SUSPEND_S, 3600);
  assert.equal(settings.CAURI_LOG_LEVEL, "info");
  assert.ok(!("CAURI_PORT" in settings), "a setting of another program is not handed out");
});

test("settings: an unknown variable of ours stops the boot with its name, another's does not", () => {
  assert.throws(() => readSettings("webhooks", { ...base, CAURI_WEBHOOK_LADER: "1" }), /CAURI_WEBHOOK_LADER is not/);
  assert.doesNotThrow(() => readSettings("webhooks", { ...base, PATH: "/bin" }));
});

test("settings: every problem is told at once, and no secret is shown", () => {
  const env = { ...base, CAURI_RPC_TOKEN: "", CAURI_WEBHOOK_SUSPEND_S: "0", NATS_URL: "hunter2" };
  assert.throws(
    () => readSettings("webhooks", env),
    (error: Error) =>
      /CAURI_RPC_TOKEN is not set/.test(error.message) &&
      /CAURI_WEBHOOK_SUSPEND_S must be a whole number 1 to 604800, not "0"/.test(error.message) &&
      /NATS_URL must be a URL/.test(error.message) &&
      !error.message.includes("hunter2"),
  );
});

test("settings: a URL has a scheme that its reader speaks", () => {
  const rails = { ...base, CAURI_RAILS_DATABASE_URL: "postgresql://localhost/cauri", CAURI_CALLBACK_URL: "http://x" };
  const read = (env: object) => readSettings("rails", { ...rails, ...env });
  assert.equal(read({ CAURI_PAY_URL: "https://pay.example" }).CAURI_PAY_URL, "https://pay.example");
  for (const CAURI_PAY_URL of ["ftp://pay.example", "javascript:alert(1)", "pay.example", "localhost:80"]) {
    assert.throws(() => read({ CAURI_PAY_URL }), /CAURI_PAY_URL must be a URL of http, https/);
  }
  assert.throws(() => read({ NATS_URL: "nats://a:1,http://b:2" }), /NATS_URL must be a URL of nats/);
});

test("settings: numbers are whole and plain", () => {
  for (const CAURI_WEBHOOK_LADDER of ["60,", "1.5", "-1", "1e3", "a"]) {
    assert.throws(() => readSettings("webhooks", { ...base, CAURI_WEBHOOK_LADDER }), /CAURI_WEBHOOK_LADDER must be/);
  }
});

test("settings: networks and files are tried before the boot", () => {
  const read = (env: object) => readSettings("webhooks", { ...base, ...env });
  for (const CAURI_WEBHOOK_ALLOW of ["banana", "10.0.0.0/33", "::1/129", "127.0.0.1/", "10.0.0.0/8/8"]) {
    assert.throws(() => read({ CAURI_WEBHOOK_ALLOW }), /CAURI_WEBHOOK_ALLOW must be networks/);
  }
  assert.equal(read({ CAURI_WEBHOOK_ALLOW: "127.0.0.0/8, ::1" }).CAURI_WEBHOOK_ALLOW, "127.0.0.0/8, ::1");
  assert.throws(() => read({ CAURI_WEBHOOK_CA: "/nowhere" }), /CAURI_WEBHOOK_CA must be a file/);
  assert.equal(read({ CAURI_WEBHOOK_CA: import.meta.filename }).CAURI_WEBHOOK_CA, import.meta.filename);
});

test("settings: docs/settings.md says what the table says", async () => {
  const page = await readFile(new URL("../../../docs/settings.md", import.meta.url), "utf8");
  assert.equal(page, settingsPage(), "run: node packages/rpc/src/settings-page.ts");
});
