import assert from "node:assert/strict";
import { test } from "node:test";
import { literalOf, parseNetworks, whyForbidden } from "./guard.ts";

const forbidden = [
  "127.0.0.1",
  "127.255.255.254",
  "0.0.0.0",
  "0.1.2.3",
  "10.0.0.1",
  "10.255.255.255",
  "172.16.0.1",
  "172.31.255.255",
  "192.168.0.1",
  "169.254.169.254",
  "169.254.0.1",
  "100.64.0.1",
  "100.100.100.200",
  "192.0.0.170",
  "192.0.2.1",
  "198.18.0.1",
  "198.19.255.255",
  "198.51.100.7",
  "203.0.113.7",
  "224.0.0.1",
  "239.255.255.250",
  "240.0.0.1",
  "255.255.255.255",
  "192.88.99.1",
  "::",
  "::1",
  "::7f00:1",
  "::ffff:127.0.0.1",
  "::ffff:10.0.0.1",
  "::ffff:8.8.8.8",
  "::ffff:0:10.0.0.1",
  "64:ff9b::10.0.0.1",
  "64:ff9b::808:808",
  "64:ff9b:1::10.0.0.1",
  "2002:a00:1::",
  "2002:7f00:1::1",
  "2001:0:4136:e378:8000:63bf:3fff:fdd2",
  "fc00::1",
  "fd00:ec2::254",
  "fe80::1",
  "febf::1",
  "fec0::1",
  "ff02::1",
  "2001:db8::1",
  "3fff::1",
  "100::1",
  "2001:2::1",
  "2001:10::1",
  "168.63.129.16",
  "0:0:0:1::1",
  "4000::1",
  "5f00::1",
  "not-an-address",
  "",
];
const allowed = [
  "8.8.8.8",
  "1.1.1.1",
  "172.15.255.255",
  "172.32.0.1",
  "100.63.255.255",
  "2606:4700:4700::1111",
  "2a00:1450::1",
];

for (const address of forbidden)
  test(`guard: ${address || "nothing"} is not dialled`, () => assert.notEqual(whyForbidden(address, []), null));
for (const address of allowed) test(`guard: ${address} is public`, () => assert.equal(whyForbidden(address, []), null));

test("guard: networks of the setting pass, and only those", () => {
  const networks = parseNetworks("127.0.0.0/8, ::1");
  assert.deepEqual(
    ["127.0.0.1", "::1", "10.0.0.1", "::ffff:127.0.0.1"].map((a) => whyForbidden(a, networks) === null),
    [true, true, false, false],
  );
  assert.deepEqual(parseNetworks(""), []);
});

test("literal_of: URL hosts in any notation come out as plain addresses", () => {
  const host = (url: string) => literalOf(new URL(url).hostname);
  assert.equal(host("https://0x7f000001/"), "127.0.0.1");
  assert.equal(host("https://017700000001/"), "127.0.0.1");
  assert.equal(host("https://2130706433/"), "127.0.0.1");
  assert.equal(host("https://127.1/"), "127.0.0.1");
  assert.equal(host("https://[::ffff:10.0.0.1]/"), "::ffff:a00:1");
  assert.equal(host("https://shop.example.com/"), null);
});
