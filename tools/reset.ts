// `npm run reset [-- --data .cauri]`: forgets the data of a local house that is not running.

import { forgetData, holderOf } from "./data.ts";
import { readStartOptions } from "./options.ts";
import { runCommand, Sentence } from "./sentence.ts";

async function main(): Promise<number> {
  const options = readStartOptions(process.argv.slice(2), { CAURI_DATA: process.env["CAURI_DATA"] });
  if (options === null) return 0;
  const holder = await holderOf(options.data);
  if (holder !== null) throw new Sentence(`The house in ${options.data} is running (pid ${holder}): stop it first.`);
  await forgetData(options.data);
  console.log(`forgot the data in ${options.data}`);
  return 0;
}

await runCommand(main);
