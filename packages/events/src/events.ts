// The house's connection to NATS JetStream. It is never given up: while NATS is away, events wait in the outboxes.

import type { Log } from "@cauri/rpc/log";
import { type JetStreamClient, type JetStreamManager, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect, type Msg, type NatsConnection } from "@nats-io/transport-node";
import { type Message, openPublisher, type Taken } from "./publish.ts";
import { ensureStream, STREAM } from "./stream.ts";

/** A restarted server is found again this soon; some jitter keeps ten services from knocking at once. */
const RECONNECT_MS = 100;
/** A first connection that takes longer is told: a wrong password looks like a server that is away. */
const SLOW_CONNECT_MS = 2_000;
/** A server that vanished without a word is noticed within two of these. */
const PING_MS = 5_000;
const REQUEST_TIMEOUT_MS = 5_000;

/** A change that caches follow. */
export type Change = { readonly subject: string; readonly payload: Uint8Array };

export type Events = {
  readonly room: string;
  readonly log: Log;
  readonly js: JetStreamClient;
  readonly jsm: JetStreamManager;
  /** Counts connections from 1: whatever was true of the server may have changed with each. */
  epoch(): number;
  connected(): boolean;
  /** Runs after each reconnect, also to a server that has lost its store. */
  onReconnect(run: () => void): () => void;
  /** Publishes to the stream, all at once; answers in their order, each with its number there or why it has none. */
  publishAll(messages: readonly Message[]): Promise<Taken[]>;
  /** Makes the stream when it is missing. */
  ensureStream(): Promise<void>;
  /** The newest sequence number of the stream. */
  lastSeq(): Promise<number>;
  /**
   * For caches: every replica hears each change at once, at most once. `null` means that some may have been missed
   * (the connection was lost): forget everything. While NATS is away nothing is heard, so a cache needs an age limit too.
   */
  onChange(subjects: readonly string[], hear: (change: Change | null) => void): () => void;
  /** For `/readyz`: told, and no reason to turn traffic away, because everything is served without NATS. */
  notices(): readonly string[];
  close(): Promise<void>;
};

export type EventsOptions = {
  /** Several servers of a cluster are separated by commas. */
  readonly nats_url: string;
  readonly room: string;
  readonly log: Log;
  /** Copies of the stream, 3 in a cluster of three; absent: as it is. */
  readonly replicas?: number;
};

/** Connects, waiting for as long as it takes, and makes the stream. */
export async function openEvents({ nats_url, room, log, replicas }: EventsOptions): Promise<Events> {
  const slow = setTimeout(() => {
    log.warn("NATS cannot be reached, or refuses NATS_URL's credentials: the start waits for it");
  }, SLOW_CONNECT_MS);
  const nc = await connect({
    ...placeOf(nats_url),
    name: room,
    maxReconnectAttempts: -1,
    waitOnFirstConnect: true,
    reconnectTimeWait: RECONNECT_MS,
    reconnectJitter: RECONNECT_MS,
    pingInterval: PING_MS,
    maxPingOut: 2,
    timeout: REQUEST_TIMEOUT_MS,
    ignoreAuthErrorAbort: true,
    // Else each request makes an error with its stack beforehand, should it fail: a thirtieth of a busy room's time.
    noAsyncTraces: true,
  }).finally(() => clearTimeout(slow));
  const jsm = await jetstreamManager(nc, { checkAPI: false, timeout: REQUEST_TIMEOUT_MS });
  await ensureStream(jsm, replicas);
  const publisher = openPublisher(nc);
  const state = watch(nc, log, publisher.lose);
  return {
    room,
    log,
    js: jetstream(nc, { timeout: REQUEST_TIMEOUT_MS }),
    jsm,
    epoch: () => state.epoch,
    connected: () => state.connected,
    onReconnect: (run) => {
      state.listeners.add(run);
      return () => void state.listeners.delete(run);
    },
    publishAll: publisher.publishAll,
    ensureStream: () => ensureStream(jsm, replicas),
    lastSeq: async () => (await jsm.streams.info(STREAM)).state.last_seq,
    onChange: (subjects, hear) => {
      const subscriptions = subjects.map((subject) =>
        nc.subscribe(subject, { callback: (_, msg) => hear(changeOf(msg)) }),
      );
      const gap = () => hear(null);
      state.listeners.add(gap);
      return () => {
        state.listeners.delete(gap);
        for (const subscription of subscriptions) subscription.unsubscribe();
      };
    },
    notices: () => (state.connected ? [] : ["NATS is away: events wait in the outbox"]),
    close: () => nc.close(),
  };
}

/** The client reads no credentials out of a URL: they are taken from the first server that has some, for all of them. */
export function placeOf(nats_url: string): { servers: string[]; user?: string; pass?: string; token?: string } {
  const texts = nats_url.split(",").map((text) => text.trim());
  const servers = texts.map((text) => text.replace(/^(\w+:\/\/)?[^@/]*@/, "$1"));
  const [first] = texts.map((text) => URL.parse(text)).filter((url) => url !== null && url.username !== "");
  if (first === undefined || first === null) return { servers };
  const user = decodeURIComponent(first.username);
  // A name without a password is a token, as other clients of NATS have it.
  return first.password === "" ? { servers, token: user } : { servers, user, pass: decodeURIComponent(first.password) };
}

function changeOf(msg: Msg): Change {
  return { subject: msg.subject, payload: msg.data };
}

/** Follows the state of the connection. */
function watch(nc: NatsConnection, log: Log, lose: () => void) {
  const state = { epoch: 1, connected: true, listeners: new Set<() => void>() };
  const follow = async () => {
    for await (const status of nc.status()) {
      if (status.type === "disconnect") {
        state.connected = false;
        lose();
        log.warn("NATS is away: events wait in the outbox");
      } else if (status.type === "reconnect") {
        state.connected = true;
        state.epoch += 1;
        log.info("NATS is back");
        for (const run of state.listeners) run();
      }
    }
    state.connected = false;
  };
  void follow();
  return state;
}
