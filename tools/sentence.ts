// A failure that a person can act on: commands print its message alone, without a stack, and exit 1.

export class Sentence extends Error {}

/** What the operating system says by code, in words that name the remedy. */
const knownCodes: Readonly<Record<string, string>> = {
  ENOSPC: "The disk is full: free about 1 GB, then try again.",
  EROFS: "The disk is read-only: choose another folder with --data.",
  EMFILE: "Too many open files: raise the limit (ulimit -n 4096), then try again.",
};

/** The text for a failure: its sentence when it has one, else everything that helps to find the bug. */
export function sentenceOf(error: unknown): string {
  if (error instanceof Sentence) return error.message;
  if (!(error instanceof Error)) return String(error);
  const code = "code" in error ? String(error.code) : "";
  return knownCodes[code] ?? error.stack ?? error.message;
}

/** Runs a command's main function; a failure becomes its sentence and exit code 1. */
export async function runCommand(main: () => Promise<number>): Promise<void> {
  try {
    process.exitCode = await main();
  } catch (error) {
    console.error(sentenceOf(error));
    process.exitCode = 1;
  }
}
