// A reporter for `node --test` that shows nothing: it leaves the counts of a whole run as one line of JSON, because
// the command that runs several layers has to add them up.

import type { TestEvent } from "node:test/reporters";

export type Tally = { readonly passed: number; readonly failed: number; readonly skipped: number };

export default async function* tally(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const event of source) {
    // A summary that names a file is that file's alone; the last one, without a file, is of the whole run.
    if (event.type !== "test:summary" || event.data.file !== undefined) continue;
    const { passed, skipped, cancelled, todo, tests } = event.data.counts;
    const failed = tests - passed - skipped - todo;
    yield `${JSON.stringify({ passed, failed: Math.max(failed, cancelled), skipped: skipped + todo } satisfies Tally)}\n`;
  }
}
