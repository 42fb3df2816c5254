// Mutants: each is one change that a tired engineer could make. Loaded by `node --import` with CAURI_MUTANT it changes the
// source while Node reads it; the proofs must then fail, or they prove too little.

import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { LEDGER_MUTANTS } from "./ledger-mutants.ts";
import { MONEY_OUT_MUTANTS } from "./money-out-mutants.ts";
import { Sentence } from "./sentence.ts";

export type Mutant = {
  readonly name: string;
  /** From the repository's root. */
  readonly file: string;
  readonly from: string;
  readonly to: string;
  /** The test that must catch it, where the proof of all the others can't: from the repository's root. */
  readonly caught_by?: string;
};

const root = dirname(import.meta.dirname);

/** One that changes nothing, or that no longer fits, would seem to be caught. */
export function checkMutants(mutants: readonly Mutant[]): void {
  for (const { name, file, from } of mutants) {
    if (readFileSync(join(root, file), "utf8").split(from).length !== 2)
      throw new Sentence(`The mutant fits no more, or in two places: ${name}`);
  }
}

const wanted = [...LEDGER_MUTANTS, ...MONEY_OUT_MUTANTS].find(({ name }) => name === process.env["CAURI_MUTANT"]);
if (wanted !== undefined) {
  checkMutants([wanted]);
  const changed = pathToFileURL(join(root, wanted.file)).href;
  registerHooks({
    load(url, context, next) {
      const loaded = next(url, context);
      if (url !== changed) return loaded;
      const source = readFileSync(fileURLToPath(url), "utf8");
      return { ...loaded, source: source.replace(wanted.from, () => wanted.to) };
    },
  });
}
