// The shared streams of one channel: one to each replica that it reaches. Each turn's calls go to the next of them. How many
// there are is found by opening one stream more, now and then, and looking whose it is.

import type { Client } from "@grpc/grpc-js";
import { Line, type Waiting } from "./exchange-line.ts";

/** So often another replica is looked for, streams that nobody used are closed, and a service is asked anew for this road. */
const LOOK_MS = 20_000;
/** Sooner, and each time twice as late, after a stream was opened or lost: other replicas are found a moment after the first. */
const FIRST_LOOK_MS = 250;
/** No more streams than this are kept, however many replicas there are. */
const MOST_LINES = 16;

export class SharedRoad {
  readonly #channel: Client;
  readonly #token: string;
  readonly #takeUnsent: (waiting: readonly Waiting[]) => void;
  /** Those that take calls. The first of them does so before a server has taken it: gRPC waits for no answer. */
  #lines: Line[] = [];
  #current = 0;
  #search: Line | null = null;
  #used = false;
  #known = true;
  #timer: NodeJS.Timeout | undefined;
  #pause_ms = FIRST_LOOK_MS;

  /** `takeUnsent` gets the calls that a service without this road has not seen. */
  constructor(channel: Client, token: string, takeUnsent: (waiting: readonly Waiting[]) => void) {
    this.#channel = channel;
    this.#token = token;
    this.#takeUnsent = takeUnsent;
  }

  /** The stream for a call of this turn; null while there is a server that does not know the service. */
  line(): Line | null {
    if (!this.#known) return null;
    this.#used = true;
    const line = this.#lines[this.#current] ?? this.#lines[0];
    if (line === undefined) return this.#first();
    if (line.gathering || this.#lines.length === 1) return line;
    this.#current = (this.#current + 1) % this.#lines.length;
    return this.#lines[this.#current] ?? line;
  }

  /** Half-closes every stream: what was asked is answered. */
  close(): void {
    for (const line of [...this.#lines, this.#search]) line?.retire();
    clearTimeout(this.#timer);
  }

  #first(): Line {
    const line = this.#open();
    this.#lines.push(line);
    this.#lookIn(FIRST_LOOK_MS);
    return line;
  }

  #open(): Line {
    return new Line(this.#channel, this.#token, {
      greeted: (line) => this.#greeted(line),
      left: (line) => this.#forget(line),
      unknown: (line, waiting) => this.#unknown(line, waiting),
    });
  }

  #lookIn(pause_ms: number): void {
    clearTimeout(this.#timer);
    this.#pause_ms = pause_ms;
    this.#timer = setTimeout(() => this.#look(), pause_ms).unref();
  }

  #look(): void {
    this.#known = true;
    // Without a stream there is nothing to look after: the next call begins anew.
    if (this.#lines.length === 0) return;
    if (this.#pause_ms === LOOK_MS) {
      if (!this.#used) {
        this.close();
        return;
      }
      this.#used = false;
    }
    this.#searchAnother();
    this.#lookIn(Math.min(2 * this.#pause_ms, LOOK_MS));
  }

  /** The channel gives each new stream to the next replica (round_robin), so the first known one ends the search. */
  #searchAnother(): void {
    if (this.#search === null && this.#lines.length < MOST_LINES) this.#search = this.#open();
  }

  #greeted(line: Line): void {
    const searched = line === this.#search;
    if (searched) this.#search = null;
    // It was retired before the server's word came.
    else if (!this.#lines.includes(line)) return;
    if (this.#lines.some((other) => other !== line && other.peer === line.peer)) {
      line.retire();
      return;
    }
    if (searched) this.#lines.push(line);
    this.#searchAnother();
  }

  #forget(line: Line): void {
    if (line === this.#search) this.#search = null;
    if (!this.#lines.includes(line)) return;
    this.#lines = this.#lines.filter((other) => other !== line);
    if (this.#lines.length > 0) this.#lookIn(FIRST_LOOK_MS);
  }

  /**
   * While a new version is rolled out some replicas know the service and some do not: every call then goes by itself, to
   * all of them, as before; those that know it would otherwise get everything.
   */
  #unknown(line: Line, waiting: readonly Waiting[]): void {
    this.#forget(line);
    for (const other of [...this.#lines]) other.retire();
    this.#known = false;
    this.#lookIn(LOOK_MS);
    this.#takeUnsent(waiting);
  }
}
