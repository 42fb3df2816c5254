// Publishes many events to JetStream at once. The client's own publish makes a promise of its own, a timer and a race for
// each message; here one inbox hears all acknowledgements, and a round has one timer and one promise.

import { createInbox, type Msg, type MsgHdrs, type NatsConnection } from "@nats-io/transport-node";

const TIMEOUT_MS = 5_000;

export type Message = {
  readonly subject: string;
  readonly payload: Uint8Array;
  /** Names and values, as they are written; a value has one line. */
  readonly headers: readonly (readonly [name: string, value: string])[];
};

/** The number of a message in the stream, or why it was not taken, or not known to be. */
export type Taken = number | Error;

export type Publisher = {
  /** Answers in the order of the messages, when each has its answer or the time is over. */
  publishAll(messages: readonly Message[]): Promise<Taken[]>;
  /** The connection is gone: what was not acknowledged by now never will be. */
  lose(): void;
};

export function openPublisher(nc: NatsConnection): Publisher {
  const inbox = createInbox();
  const waiting = new Map<string, (taken: Taken) => void>();
  let serial = 0;
  nc.subscribe(`${inbox}.*`, {
    callback: (error, message) => {
      // One that is answered after its time is known by nobody any more.
      waiting.get(message.subject.slice(inbox.length + 1))?.(error ?? takenOf(message));
    },
  });
  const endAll = (tokens: Iterable<string>, why: string) => {
    for (const token of [...tokens]) waiting.get(token)?.(new Error(why));
  };
  return {
    lose: () => endAll(waiting.keys(), "the connection to NATS was lost before the acknowledgement"),
    publishAll: (messages) =>
      new Promise((resolve) => {
        const taken: Taken[] = new Array(messages.length);
        const first = serial;
        serial += messages.length;
        const tokens = messages.map((_, at) => String(first + at));
        const timer = setTimeout(() => endAll(tokens, "JetStream did not acknowledge in time"), TIMEOUT_MS);
        let left = messages.length;
        for (const [at, { subject, payload, headers }] of messages.entries()) {
          const token = String(first + at);
          const settle = (answer: Taken) => {
            waiting.delete(token);
            taken[at] = answer;
            left -= 1;
            if (left > 0) return;
            clearTimeout(timer);
            resolve(taken);
          };
          waiting.set(token, settle);
          try {
            nc.publish(subject, payload, { reply: `${inbox}.${token}`, headers: written(headers) });
          } catch (error) {
            settle(error instanceof Error ? error : new Error(String(error)));
          }
        }
        if (messages.length === 0) {
          clearTimeout(timer);
          resolve(taken);
        }
      }),
  };
}

/**
 * Headers in the form that goes over the wire, of which the client asks no more than that. Its own are read character by
 * character, name for name and message for message, at eight times the price.
 */
function written(headers: Message["headers"]): MsgHdrs {
  let text = "NATS/1.0\r\n";
  for (const [name, value] of headers) {
    if (/[\r\n]/.test(value)) throw new Error(`the header ${name} has more than one line`);
    text += `${name}: ${value}\r\n`;
  }
  const bytes = Buffer.from(`${text}\r\n`);
  return { encode: () => bytes } as unknown as MsgHdrs;
}

type Ack = { readonly seq?: unknown; readonly error?: { readonly description?: string } };

/** The server's word: a number of the stream, an error of JetStream, or that nobody listens (no stream, or none yet). */
function takenOf(message: Msg): Taken {
  if (message.data.length === 0) return new Error(`JetStream is not there: ${message.headers?.code ?? "no"} answer`);
  const { seq, error } = message.json<Ack>();
  if (typeof seq === "number" && seq > 0) return seq;
  return new Error(`JetStream did not take it: ${error?.description ?? message.string()}`);
}
