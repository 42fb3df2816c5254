// Builds what is published: JavaScript, its types, a manifest and the README in a folder of their own. The workspace itself
// holds TypeScript sources and is private, so that it is never packed as it lies here.

import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const here = import.meta.dirname;

/** Writes the package into `target`, which is emptied first. */
export function build(target: string): void {
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target, { recursive: true });
  const compiler = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin/tsc");
  const done = spawnSync(process.execPath, [compiler, "-p", join(here, "tsconfig.build.json"), "--outDir", target], {
    encoding: "utf8",
  });
  if (done.status !== 0) throw new Error(`the verifier does not compile:\n${done.stdout}${done.stderr}`);
  const { name, version, type } = JSON.parse(readFileSync(join(here, "package.json"), "utf8"));
  const manifest = {
    name,
    version,
    description: "Verifies Cauri's webhooks: Web Crypto, no dependencies.",
    type,
    sideEffects: false,
    exports: { ".": { types: "./verify.d.ts", default: "./verify.js" } },
    engines: { node: ">=20" },
  };
  writeFileSync(join(target, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  copyFileSync(join(here, "README.md"), join(target, "README.md"));
}

if (import.meta.main) {
  build(join(here, "dist"));
  process.stdout.write("built packages/webhook-verifier/dist: publish that folder, never this one\n");
}
