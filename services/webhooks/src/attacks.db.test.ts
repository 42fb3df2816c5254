// Attacks on the outbound guard, each through registration and through a delivery, with a name server of our own. A
// listener that nobody may reach waits on every address of this machine; "outside" is 127.0.0.2, the one address allowed.

import assert from "node:assert/strict";
import { createSocket, type Socket as UdpSocket } from "node:dgram";
import diagnostics from "node:diagnostics_channel";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:https";
import {
  type AddressInfo,
  createServer as createTcpServer,
  isIPv6,
  type Socket,
  type Server as TcpServer,
} from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { isRefusal } from "@cauri/money/refusal";
import { serverIdentity, writeAuthority } from "../../../test/authority.ts";
import { type Dialer, openDialer } from "./dialer.ts";
import { checkUrl } from "./endpoint.ts";
import { parseNetworks } from "./guard.ts";
import { openResolver } from "./resolver.ts";

const OUTSIDE = "127.0.0.2";

/** IPv4 in every notation that a URL's parser takes, and IPv6 with and without an IPv4 address inside. */
const LITERALS: readonly string[] = [
  ...["127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "127.255.255.254", "127.0.0.3", "0.0.0.0", "0", "0.1.2.3"],
  ...["0x7f.1", "0x7f000001", "0X7F.0.0.1", "2130706433", "017700000001", "0177.0.0.1", "00000177.0.0.01", "0x7f.0.1"],
  ...["１２７.0.0.1", "①②⑦.⓪.⓪.①", "127。0。0。1", "%31%32%37.0.0.1", "127%2e0%2e0%2e1", "1\u200b27.0.0.1"],
  ...["10.0.0.1", "10.1", "167772161", "172.16.0.1", "172.31.255.254", "192.168.1.1", "0xc0a80101", "192.168.257"],
  ...["169.254.169.254", "0xA9FEA9FE", "2852039166", "0251.0376.0251.0376", "169.254.43518", "168.63.129.16"],
  ...["100.64.0.1", "100.100.100.200", "192.0.0.192", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.51.100.1"],
  ...["203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255"],
  ...[
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::0001]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::FFFF:169.254.169.254]",
  ],
  ...["[::ffff:127.0.0.2]", "[::127.0.0.1]", "[::a9fe:a9fe]", "[::ffff:0:127.0.0.1]", "[0:0:0:0:0:ffff:a00:1]"],
  ...["[64:ff9b::127.0.0.1]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::7f00:1]", "[64:ff9b:1:ffff::10.0.0.1]"],
  ...["[2002:7f00:1::]", "[2002:a9fe:a9fe::1]", "[2001:0:7f00:1::]", "[2001::1]", "[2001:10::1]", "[2001:db8::1]"],
  ...["[fe80::1]", "[febf::1]", "[fec0::1]", "[fc00::1]", "[fd00:ec2::254]", "[ff01::1]", "[ff02::1]", "[100::1]"],
  ...["[3fff::1]", "[5f00::1]", "[4000::1]", "[::ffff:8.8.8.8]"],
];

/** What the name server answers; where there are several lists, each question gets the next one. */
const NAMES: Readonly<Record<string, readonly (readonly string[])[]>> = {
  "loop.attack.test": [["127.0.0.1"]],
  "loop6.attack.test": [["::1"]],
  "any.attack.test": [["0.0.0.0"]],
  "any6.attack.test": [["::"]],
  "private.attack.test": [["10.0.0.1"]],
  "metadata.attack.test": [["169.254.169.254"]],
  "mapped.attack.test": [["::ffff:127.0.0.1"]],
  "mapped-outside.attack.test": [["::ffff:127.0.0.2"]],
  "compatible.attack.test": [["::7f00:1"]],
  "nat64.attack.test": [["64:ff9b::7f00:1"]],
  "6to4.attack.test": [["2002:7f00:1::1"]],
  "teredo.attack.test": [["2001:0:7f00:1::1"]],
  "local.attack.test": [["fe80::1"]],
  "last.attack.test": [[OUTSIDE, "127.0.0.1"]],
  "first.attack.test": [["127.0.0.1", OUTSIDE]],
  "families.attack.test": [[OUTSIDE, "::1"]],
  "many.attack.test": [[...Array.from({ length: 20 }, () => OUTSIDE), "192.168.0.1"]],
};

/** Good while it is registered, bad when it is dialled: each change comes with a time to live of 0. */
const REBOUND: Readonly<Record<string, readonly (readonly string[])[]>> = {
  "rebound.attack.test": [[OUTSIDE], ["127.0.0.1"]],
  "rebound6.attack.test": [[OUTSIDE], ["::1"]],
  "joined.attack.test": [[OUTSIDE], [OUTSIDE, "127.0.0.1"]],
};

/** URLs that never become an endpoint; `P` is the port of the listener. */
const URLS: readonly string[] = [
  "http://127.0.0.2:P/",
  "ftp://127.0.0.1:P/",
  "file:///etc/passwd",
  "gopher://127.0.0.1:P/_x",
  "https://127.0.0.2@127.0.0.1:P/",
  "https://127.0.0.2:x@127.0.0.1:P/",
  "https://:x@127.0.0.1:P/",
  "https://127.0.0.1:P/#@127.0.0.2/",
  "https:127.0.0.1:P",
  "https:///127.0.0.1:P/",
  " https://127.0.0.1:P/",
  "https://127.0.0.1\t:P/",
  "https://[::1%25lo]:P/",
  "https://127.0.0.1:99999/",
  "https://localhost:P/",
  "https://localhost.:P/",
  "https://LOCALHOST:P/",
  "https://a.localhost:P/",
];

const REDIRECTS = [300, 301, 302, 303, 307, 308];

let folder: string;
let names: UdpSocket;
let forbidden: TcpServer;
let outside: Server;
let dialer: Dialer;
let reached = 0;
/** Addresses that a socket of this process tried to reach since the last attack began. */
let dialled: string[] = [];
const asked = new Map<string, number>();

diagnostics.subscribe("net.client.socket", (message) => {
  const { socket } = message as { socket: Socket };
  socket.on("connectionAttempt", (address: string) => dialled.push(address));
});

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "cauri-attacks-"));
  await writeAuthority(folder);
  forbidden = createTcpServer((socket) => {
    reached += 1;
    socket.destroy();
  });
  await new Promise<void>((open) => forbidden.listen(0, "::", open));
  outside = createServer(serverIdentity(folder), (request, response) => {
    request.resume();
    const status = Number(request.url?.slice(1));
    const location = `https://127.0.0.1:${portOf(forbidden)}/`;
    response.writeHead(status, { location, refresh: `0; url=${location}`, "alt-svc": `h2="${location}"` }).end();
  });
  // It never hangs up: a post on a connection that is just being closed would fail.
  outside.keepAliveTimeout = 0;
  await new Promise<void>((open) => outside.listen(0, OUTSIDE, open));
  names = createSocket("udp4");
  names.on("message", (question, from) => names.send(answerTo(question), from.port, from.address));
  await new Promise<void>((open) => names.bind(0, "127.0.0.1", open));
  dialer = openDialer({
    allowed: parseNetworks(OUTSIDE),
    timeout_ms: 30_000,
    ca: readFileSync(join(folder, "ca.pem"), "utf8"),
    resolve: openResolver({ servers: [`127.0.0.1:${names.address().port}`] }),
  });
});
after(async () => {
  await dialer.close();
  names.close();
  forbidden.close();
  outside.closeAllConnections();
  outside.close();
  rmSync(folder, { recursive: true });
});

const portOf = (server: TcpServer) => (server.address() as AddressInfo).port;

/** One answer in the form of RFC 1035: the question again, and a record for each address of the family asked for. */
function answerTo(question: Buffer): Buffer {
  const labels: string[] = [];
  let at = 12;
  for (let size = question[at] ?? 0; size > 0; size = question[at] ?? 0) {
    labels.push(question.toString("latin1", at + 1, at + 1 + size).toLowerCase());
    at += size + 1;
  }
  const wants6 = question.readUInt16BE(at + 1) === 28;
  const name = labels.join(".");
  const lists = NAMES[name] ?? REBOUND[name] ?? [];
  // Both families are asked for at once: a round is a question for each.
  const times = asked.get(`${name} ${wants6}`) ?? 0;
  asked.set(`${name} ${wants6}`, times + 1);
  const addresses = (lists[Math.min(times, lists.length - 1)] ?? []).filter((address) => isIPv6(address) === wants6);
  const head = Buffer.from(question.subarray(0, 12));
  head.writeUInt16BE(0x8180, 2);
  head.writeUInt16BE(addresses.length, 6);
  head.writeUInt32BE(0, 8);
  return Buffer.concat([head, question.subarray(12, at + 5), ...addresses.map(recordOf)]);
}

function recordOf(address: string): Buffer {
  const bytes = isIPv6(address) ? bytesOf6(address) : Buffer.from(address.split(".").map(Number));
  const type = bytes.length === 4 ? 1 : 28;
  // The name is a pointer to the question's; class IN; time to live 0.
  return Buffer.concat([Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 0, 0, bytes.length]), bytes]);
}

/** The URL parser writes an IPv6 address in hexadecimal groups, whatever notation it was given. */
function bytesOf6(address: string): Buffer {
  const [head = "", tail = ""] = new URL(`https://[${address}]/`).hostname.slice(1, -1).split("::");
  const groups = (text: string) => text.split(":").filter((group) => group !== "");
  const [before_gap, after_gap] = [groups(head), groups(tail)];
  const zeros = Array.from({ length: 8 - before_gap.length - after_gap.length }, () => "0");
  return Buffer.from([...before_gap, ...zeros, ...after_gap].map((group) => group.padStart(4, "0")).join(""), "hex");
}

/** Tries it by every way that a merchant has; tells whether it was ever taken as an endpoint. */
async function attack(text: string): Promise<boolean> {
  dialled = [];
  const before_all = reached;
  const url = checkUrl(text);
  const isTaken = !isRefusal(url) && (await dialer.whyForbidden(url)) === null;
  // A row may be older than a rule: what would never be registered is dialled all the same.
  if (URL.parse(text)?.protocol === "https:") {
    const { delivered, error } = await dialer.post(text, {}, "{}");
    assert.equal(delivered, false, text);
    assert.match(error ?? "", /^(refused to connect: |the host name does not resolve)/, text);
  }
  assert.equal(reached, before_all, `${text} reached the listener`);
  assert.deepEqual(dialled, [], `${text} was dialled`);
  return isTaken;
}

test("the watch: what is dialled is seen, and the listener hears whoever reaches it", async () => {
  const open = openDialer({ allowed: parseNetworks("127.0.0.0/8"), timeout_ms: 30_000 });
  dialled = [];
  assert.equal((await open.post(`https://127.0.0.1:${portOf(forbidden)}/`, {}, "{}")).delivered, false);
  await open.close();
  assert.deepEqual([dialled, reached], [["127.0.0.1"], 1]);
});

for (const host of LITERALS)
  test(`guard: the literal ${JSON.stringify(host)}`, async () => {
    assert.equal(await attack(`https://${host}:${portOf(forbidden)}/`), false);
  });

for (const name of Object.keys(NAMES))
  test(`guard: the name ${name}: ${NAMES[name]?.join()}`, async () => {
    assert.equal(await attack(`https://${name}:${portOf(forbidden)}/`), false);
  });

for (const name of Object.keys(REBOUND))
  test(`guard: ${name}, good when registered and bad when dialled`, async () => {
    assert.equal(await dialer.whyForbidden(`https://${name}/`), null);
    // Answers are kept for a second at least: within it the good address is dialled, after it the name is asked again.
    await new Promise((later) => setTimeout(later, 1_100));
    await attack(`https://${name}:${portOf(forbidden)}/`);
  });

for (const text of URLS)
  test(`guard: the URL ${JSON.stringify(text)}`, async () => {
    assert.equal(await attack(text.replace("P", String(portOf(forbidden)))), false);
  });

for (const status of REDIRECTS)
  test(`guard: an answer ${status} with a Location is an answer like others`, async () => {
    dialled = [];
    const before_all = reached;
    const attempt = await dialer.post(`https://${OUTSIDE}:${portOf(outside)}/${status}`, {}, "{}");
    assert.deepEqual([attempt.delivered, attempt.error], [false, `answered ${status}`]);
    assert.equal(reached, before_all);
    assert.ok(dialled.every((address) => address === OUTSIDE));
  });
