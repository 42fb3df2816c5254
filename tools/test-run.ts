// One running house for a layer of tests, with certificates for webhook receivers on this machine; its logs are searched
// for leaked secrets when it has stopped.

import { cpSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { writeAuthority } from "../test/authority.ts";
import { findLeaks } from "../test/leaks.ts";
import { startHouseProcess } from "./house-process.ts";
import { makeTestFolder, removeTestFolder } from "./test-folder.ts";

const root = dirname(import.meta.dirname);

export type TestRun = {
  readonly data: string;
  /** Certificates of receivers on this machine. */
  readonly certs: string;
  readonly pid: number;
  /** Stops the house; throws when it did not stop cleanly or when a secret of the run is in any log. */
  end(): Promise<void>;
};

/** Starts the house and tells the tests where it is, by the environment. `layer` names what is kept of its logs. */
export async function beginTestRun(layer: string, settings: Readonly<Record<string, string>>): Promise<TestRun> {
  const folder = makeTestFolder();
  const data = join(folder, "data");
  const certs = join(folder, "certs");
  const secrets = join(folder, "secrets");
  const output = join(folder, "start.log");
  mkdirSync(certs, { mode: 0o700 });
  await writeAuthority(certs);
  writeFileSync(secrets, "", { mode: 0o600 });
  const receivers = { CAURI_WEBHOOK_ALLOW: "127.0.0.0/8,::1", CAURI_WEBHOOK_CA: join(certs, "ca.pem") };
  const house = await startHouseProcess({ data, output, settings: { ...receivers, ...settings } });
  Object.assign(process.env, { CAURI_TEST_HOUSE: data, CAURI_TEST_CERTS: certs, CAURI_TEST_SECRETS: secrets });
  return {
    data,
    certs,
    pid: house.pid,
    async end() {
      const code = await house.stop();
      const leaks = findLeaks(join(data, "logs"), secrets);
      const kept = keepLogs(layer, data, output);
      removeTestFolder(folder);
      if (leaks.length > 0) fail(`secrets in the logs (${kept}):\n${leaks.join("\n")}`);
      if (code !== 0) fail(`the house did not stop cleanly (${code}): see ${kept}`);
    },
  };
}

/** Node's runner fails when a teardown throws, but does not say why. */
function fail(why: string): never {
  console.error(why);
  throw new Error(why);
}

/** The logs of the last run of each layer stay, for whoever has to find out why a test failed. */
function keepLogs(layer: string, data: string, output: string): string {
  const kept = join(root, ".cauri-test", layer);
  rmSync(kept, { recursive: true, force: true });
  mkdirSync(kept, { recursive: true, mode: 0o700 });
  cpSync(join(data, "logs"), kept, { recursive: true });
  cpSync(output, join(kept, "start.log"));
  return kept;
}
