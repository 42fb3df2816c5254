// Part of `npm run check`: refuses a change of gateway/openapi.json that would break a client generated from the one at
// the given commit. A break that is meant stands word for word in gateway/openapi-accepted.txt, with its reason above it.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { breakingChanges } from "./openapi-breaking.ts";
import { runCommand, Sentence } from "./sentence.ts";

const root = dirname(import.meta.dirname);
const FILE = "gateway/openapi.json";
const ACCEPTED = "gateway/openapi-accepted.txt";
/** The description grows with every resource; git's answer must fit. */
const MOST_BYTES = 64 * 1024 * 1024;

async function main([base]: readonly string[]): Promise<number> {
  if (base === undefined) throw new Sentence("Say against which commit: node tools/openapi-diff.ts origin/main");
  const before = execFileSync("git", ["show", `${base}:${FILE}`], {
    cwd: root,
    encoding: "utf8",
    maxBuffer: MOST_BYTES,
  });
  const accepted = readFileSync(join(root, ACCEPTED), "utf8").split("\n");
  const breaks = breakingChanges(JSON.parse(before), JSON.parse(readFileSync(join(root, FILE), "utf8")));
  const refused = breaks.filter((one) => !accepted.includes(one));
  for (const one of refused) console.log(one);
  if (refused.length > 0) console.log(`A break that is meant is written into ${ACCEPTED}, with its reason.`);
  return refused.length === 0 ? 0 : 1;
}

await runCommand(() => main(process.argv.slice(2)));
