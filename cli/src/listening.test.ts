import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { ListenResponseSchema } from "@cauri/proto/es/cauri/webhooks/v1/listen_pb";
import { Code, ConnectError } from "@connectrpc/connect";
import { followListener, type Heard, type Opening, type OpenStream, type Waits, type Wanted } from "./listening.ts";

type Step = MessageInitShape<typeof ListenResponseSchema>["message"] | Error | "silence" | "end";

const WANTED: Wanted = { secret: undefined, events: [], standard_headers: false };
const WAITS: Waits = { silence_ms: 30, first_ms: 1, most_ms: 4 };

const opened = (secret: string, cursor: string): Step => ({ case: "opened", value: { secret, cursor } });
const notice = (eventId: string, cursor: string): Step => ({ case: "notice", value: { eventId, cursor } });
const refused = (code: Code, reason: string, more: Record<string, string> = {}) =>
  new ConnectError(reason, code, { "cauri-reason": reason, ...more });

/** A house that answers each stream by the next list of steps. */
function house(...streams: readonly (readonly Step[])[]): { open: OpenStream; openings: Opening[] } {
  const openings: Opening[] = [];
  const open: OpenStream = async function* (opening, signal) {
    const steps = streams[openings.length] ?? [refused(Code.Unauthenticated, "invalid_api_key")];
    openings.push(opening);
    for (const step of steps) {
      if (step === "end") return;
      if (step instanceof Error) throw step;
      if (step === "silence") {
        await sleep(10_000, undefined, { signal }).catch(() => {
          throw new ConnectError("given up", Code.Canceled);
        });
      } else yield create(ListenResponseSchema, step === undefined ? {} : { message: step });
    }
  };
  return { open, openings };
}

/** What is heard until the session ends by a refusal, in words. */
async function heardOf(open: OpenStream, wanted = WANTED): Promise<{ said: string[]; end: unknown }> {
  const said: string[] = [];
  try {
    for await (const heard of followListener(open, wanted, new AbortController().signal, WAITS))
      said.push(inWords(heard));
    return { said, end: null };
  } catch (end) {
    return { said, end };
  }
}

function inWords(heard: Heard): string {
  if (heard.kind === "opened") return `opened ${heard.secret}`;
  return heard.kind === "notice" ? heard.notice.eventId : heard.kind;
}

test("follow_listener: each stream goes on behind the last notice, under the first one's secret", async () => {
  const { open, openings } = house(
    [opened("s1", "10"), notice("a", "11"), { case: "heartbeat", value: {} }, notice("b", "12"), "end"],
    [opened("s1", "12"), "end"],
    [opened("s1", "12"), notice("c", "13"), new ConnectError("cut", Code.Aborted)],
  );
  const { said } = await heardOf(open, { ...WANTED, events: ["payment.success"] });
  assert.deepEqual(said, ["opened s1", "a", "b", "c", "lost"], "a stream that ends by its age is nobody's concern");
  const asked = { events: ["payment.success"], standardHeaders: false };
  assert.deepEqual(openings, [
    asked,
    { ...asked, after: "12", secret: "s1" },
    { ...asked, after: "12", secret: "s1" },
    { ...asked, after: "13", secret: "s1" },
  ]);
});

test("follow_listener: an outage is told once, and its end too, however often it is tried", async () => {
  const away = refused(Code.Unavailable, "temporarily_unavailable");
  const full = refused(Code.ResourceExhausted, "rate_limited");
  const { open, openings } = house(
    [opened("s", "1"), away],
    [away],
    [full],
    [opened("s", "1"), { case: "skipped", value: {} }, notice("a", "2"), "end"],
  );
  assert.deepEqual((await heardOf(open)).said, ["opened s", "lost", "opened s", "skipped", "a"]);
  assert.equal(openings.at(-1)?.after, "2");
});

test("follow_listener: an event that the house tells again at another place is told once", async () => {
  const { open, openings } = house(
    [opened("s", "1"), notice("a", "2"), notice("b", "3"), new ConnectError("cut", Code.Aborted)],
    [opened("s", "3"), notice("a", "7"), notice("c", "8"), notice("b", "9"), "end"],
  );
  assert.deepEqual((await heardOf(open)).said, ["opened s", "a", "b", "lost", "opened s", "c"]);
  assert.equal(openings.at(-1)?.after, "9");
});

test("follow_listener: a line that stays silent is given up; silence of whoever reads is no silence of the line", async () => {
  const { open, openings } = house([opened("s", "1"), "silence"], [opened("s", "1"), notice("a", "2"), "end"]);
  const { said } = await heardOf(open);
  assert.deepEqual(said, ["opened s", "lost", "opened s", "a"]);
  assert.equal(openings.length, 3);
  const slow = house([opened("s", "1"), notice("a", "2"), notice("b", "3"), "end"]);
  const heard: string[] = [];
  await assert.rejects(async () => {
    for await (const one of followListener(slow.open, WANTED, new AbortController().signal, WAITS)) {
      await sleep(WAITS.silence_ms * 2);
      heard.push(inWords(one));
    }
  });
  assert.deepEqual(heard, ["opened s", "a", "b"]);
});

test("follow_listener: a refusal ends it at once, whenever it comes; a house that was never reached too", async () => {
  for (const reason of ["invalid_api_key", "insufficient_scope", "client_inactive", "invalid_request"]) {
    const { end } = await heardOf(house([refused(Code.PermissionDenied, reason)]).open);
    assert.ok(end instanceof ConnectError && end.rawMessage === reason);
  }
  const later = await heardOf(house([opened("s", "1"), refused(Code.Unauthenticated, "invalid_api_key")]).open);
  assert.deepEqual(later.said, ["opened s"]);
  const never = house([refused(Code.Unavailable, "temporarily_unavailable")], [opened("s", "1")]);
  assert.ok((await heardOf(never.open)).end instanceof ConnectError);
  assert.equal(never.openings.length, 1);
});

test("follow_listener: its signal ends it without a word, also between two streams", async () => {
  const session = new AbortController();
  const { open } = house([opened("s", "1"), "silence"]);
  const said: string[] = [];
  for await (const heard of followListener(open, WANTED, session.signal, { ...WAITS, silence_ms: 5_000 })) {
    said.push(inWords(heard));
    session.abort();
  }
  assert.deepEqual(said, ["opened s"]);
});
