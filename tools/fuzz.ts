// `npm run fuzz [-- --runs 200 --seed N]`: requests made from the served description against a house of its own; nothing
// may answer 500, break the envelope or its schema, or take what its schema refuses. Where schemathesis is installed
// (`pip install schemathesis`), its own checks run too.

import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import fc from "fast-check";
import { type Api, call, fund, handles, type Merchant, merchant } from "../test/house.ts";
import { creations, equipped } from "../test/one-of-each.ts";
import { startReceiver } from "../test/receiver.ts";
import { type Known, type Node, type Operation, operationsOf, type Request, requestsOf } from "./fuzz-requests.ts";
import { type Answer, type Judge, judges } from "./fuzz-verdict.ts";
import { runCommand, Sentence } from "./sentence.ts";
import { beginTestRun } from "./test-run.ts";

const root = dirname(import.meta.dirname);
/** As much as the setting allows: the limit has tests of its own and would only slow this down. */
const ENVIRONMENT = { CAURI_RATE_LIMIT: "900", CAURI_RATE_WINDOW_S: "1", CAURI_SIM_DELAY_MS: "100" };
const SCHEMATHESIS_EXAMPLES = 50;
/** More than all requests together can move. */
const FUNDS = 1_000_000_000;

async function main(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      runs: { type: "string", default: "200" },
      seed: { type: "string", default: String(Date.now() % 2 ** 31) },
    },
  });
  const [runs, seed] = [Number(values.runs), Number(values.seed)];
  if (!Number.isInteger(runs) || runs < 1 || !Number.isInteger(seed))
    throw new Sentence("--runs and --seed are numbers.");
  const house = await beginTestRun("fuzz", ENVIRONMENT);
  try {
    const receiver = await startReceiver();
    const from = await equipped("Fuzz");
    const merchant_api = from.test;
    const known = await firstThings(from, receiver.url);
    const failures = (await fuzzAll(merchant_api, known, runs, seed)) + schemathesis(merchant_api.key, seed);
    await receiver.close();
    return failures === 0 ? 0 : 1;
  } finally {
    await house.end();
  }
}

/** Something to find, money to move and somebody to move it to, so that requests are fuzzed beyond 403, 404 and 422. */
async function firstThings({ account_id, test: api }: Merchant, url: string): Promise<Known> {
  const to = await merchant("Fuzzed");
  for (const platform_id of ["plt_mtn_ci", "plt_orange_ci", "plt_wave_sn"]) await fund(account_id, FUNDS, platform_id);
  const described = (await api.get("/v1/openapi.json")).body.paths;
  const made: { [path: string]: string } = {};
  const ids: { [collection: string]: string[] } = {};
  for (const [path, bodyOf] of Object.entries(creations(to.account_id, url))) {
    if (!Object.hasOwn(described, path)) continue;
    const named = path === "/v1/webhooks" ? {} : { client_ref: "first" };
    const answer = await api.post(path, { ...bodyOf(made), ...named });
    if (answer.status !== 201) throw new Error(`POST ${path} answered ${answer.status} ${answer.text}`);
    const { id, reference, client_ref } = answer.body;
    made[path] = id;
    ids[path.split("/")[2] ?? ""] = [String(id), reference, client_ref].filter(Boolean);
  }
  return { ids, fields: { destination_account_id: [to.account_id], payment_id: ids["payments"] ?? [] } };
}

async function fuzzAll(api: Api, known: Known, runs: number, seed: number): Promise<number> {
  const document = (await api.get("/v1/openapi.json")).body as Node;
  const judge = judges(document);
  let failures = 0;
  for (const operation of operationsOf(document)) {
    const statuses = new Map<number, number>();
    const failure = await fuzz(api.key, operation, judge(operation), requestsOf(document, operation, known), statuses, {
      runs,
      seed,
    });
    const seen = [...statuses].sort().map(([status, count]) => `${status} x ${count}`);
    console.log(`${failure === null ? "ok  " : "FAIL"} ${operation.name.padEnd(34)} ${seen.join(", ")}`);
    if (failure !== null) console.log(failure);
    failures += failure === null ? 0 : 1;
  }
  console.log(
    `${runs} requests for each of ${operationsOf(document).length} operations, --seed ${seed}, ${failures} failed`,
  );
  return failures;
}

/** Null, or the smallest request found that is answered wrongly. */
async function fuzz(
  key: string,
  operation: Operation,
  judge: Judge,
  requests: fc.Arbitrary<Request>,
  statuses: Map<number, number>,
  { runs, seed }: { readonly runs: number; readonly seed: number },
): Promise<string | null> {
  let last = "";
  const property = fc.asyncProperty(requests, async (request) => {
    const answer = await send(key, operation, request);
    if (answer === null) return true;
    statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
    const complaints = judge(request, answer);
    if (complaints.length > 0)
      last = `${complaints.join("; ")}\n     ${JSON.stringify(request)}\n     ${answer.status} ${answer.text.slice(0, 300)}`;
    return complaints.length === 0;
  });
  const { failed } = await fc.check(property, { numRuns: runs, seed, endOnFailure: false });
  return failed ? `     ${last}` : null;
}

/** Null where a client library cannot even write the request: a header outside of ASCII, a half of a character in a URL. */
async function send(key: string, { verb, path }: Operation, { params, body }: Request): Promise<Answer | null> {
  const headers: { [name: string]: string } = {};
  const query = new URLSearchParams();
  let target = path;
  for (const [place_and_name, value] of Object.entries(params)) {
    const [place, name = ""] = place_and_name.split(" ");
    if (place === "query") query.set(name, value);
    else if (place === "header") headers[name] = value;
    else if (!value.isWellFormed() || value === "" || /^\.{1,2}$/.test(value)) return null;
    else target = target.replace(`{${name}}`, encodeURIComponent(value));
  }
  if (!Object.values(headers).every((value) => /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(value))) return null;
  const answer = await call(key, verb, query.size > 0 ? `${target}?${query}` : target, {
    headers,
    ...(body === undefined ? {} : { raw: JSON.stringify(body) }),
  });
  return answer;
}

/** Failed checks, or none where it is not installed. */
function schemathesis(key: string, seed: number): number {
  const version = spawnSync("schemathesis", ["--version"], { encoding: "utf8" });
  if (version.error !== undefined) {
    console.log("schemathesis is not installed: its checks are left out (pip install schemathesis)");
    return 0;
  }
  const { base_url } = handles();
  const options = ["--url", base_url, "-H", `Authorization: Bearer ${key}`, "--seed", String(seed), "--checks", "all"];
  const config = ["--config-file", join(root, "tools/schemathesis.toml")];
  const run = ["run", `${base_url}/docs/openapi.json`, ...options, "--max-examples", String(SCHEMATHESIS_EXAMPLES)];
  const { status } = spawnSync("schemathesis", [...config, ...run], { stdio: "inherit" });
  return status === 0 ? 0 : 1;
}

await runCommand(() => main(process.argv.slice(2)));
