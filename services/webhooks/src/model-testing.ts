// For tests: the rules of section 5 of the contract as plainly as they can be said, without a database. Times are seconds.

const LADDER_S = [60, 300, 1800, 7200];
const SUSPEND_AFTER = 20;
const SUSPEND_S = 3600;
const KEEP_S = 259_200;

export type Bounds = { readonly per_endpoint: number; readonly per_account: number };

export type ModelDelivery = {
  readonly id: string;
  readonly operation: string;
  readonly version: bigint;
  status: "pending" | "delivered" | "failed";
  attempts: number;
  due_s: number;
  /** The number of whoever sends it, and whether that one may still be alive. */
  flight: { readonly no: bigint; live: boolean } | null;
};

export class EndpointModel {
  readonly deliveries = new Map<string, ModelDelivery>();
  failures = 0;
  suspended_until_s: number | null = null;
  is_active = true;

  arrive(id: string, operation: string, version: bigint, now_s: number): void {
    const fresh = { status: "pending", attempts: 0, due_s: now_s, flight: null } as const;
    this.deliveries.set(id, { id, operation, version, ...fresh });
  }

  isSuspended(now_s: number): boolean {
    return this.suspended_until_s !== null && this.suspended_until_s > now_s;
  }

  /** What may be sent now, and how many of it. */
  sendable(
    now_s: number,
    endpoints: number,
    bounds: Bounds,
  ): { readonly from: ModelDelivery[]; readonly count: number } {
    if (!this.is_active || this.isSuspended(now_s)) return { from: [], count: 0 };
    const pending = [...this.deliveries.values()].filter(({ status }) => status === "pending");
    const from = pending
      .filter(({ due_s, flight }) => due_s <= now_s && flight === null)
      .filter((one) => one.attempts > 0 || !pending.some(holdsBack(one)));
    return { from, count: Math.min(from.length, this.room(endpoints, bounds)) };
  }

  /** How many more may be under way. */
  room(endpoints: number, bounds: Bounds): number {
    const share = Math.floor(bounds.per_account / endpoints);
    const room = Math.max(1, Math.min(bounds.per_endpoint, SUSPEND_AFTER - this.failures, share));
    return Math.max(0, room - [...this.deliveries.values()].filter(({ flight }) => flight !== null).length);
  }

  /** What is new and may go at once: only while nothing else could, and in the order of the events. */
  direct(fresh: readonly string[], now_s: number, endpoints: number, bounds: Bounds): string[] {
    if (!this.is_active || this.isSuspended(now_s)) return [];
    const all = [...this.deliveries.values()];
    if (this.sendable(now_s, endpoints, bounds).from.some(({ id }) => !fresh.includes(id))) return [];
    const before = all.filter(({ id, status }) => status === "pending" && !fresh.includes(id));
    return all
      .filter((one) => fresh.includes(one.id) && !before.some(holdsBack(one)))
      .sort((one, other) => Number(one.version - other.version))
      .slice(0, this.room(endpoints, bounds))
      .map(({ id }) => id);
  }

  /** What dead runners had under way waits again. */
  returnLost(): void {
    for (const one of this.deliveries.values()) if (one.flight?.live === false) one.flight = null;
  }

  /** An attempt ended: it counts for the endpoint in any case, and moves the delivery if nobody took it over, which is told. */
  end(id: string, no: bigint, delivered: boolean, now_s: number): boolean {
    if (delivered) this.reinstate();
    else {
      this.failures += 1;
      if (this.failures >= SUSPEND_AFTER && !this.isSuspended(now_s)) this.suspended_until_s = now_s + SUSPEND_S;
    }
    const one = this.deliveries.get(id);
    if (one?.flight?.no !== no) return false;
    one.flight = null;
    const step_s = LADDER_S[one.attempts];
    one.attempts += 1;
    if (delivered) one.status = "delivered";
    else if (step_s === undefined) one.status = "failed";
    else one.due_s = now_s + step_s;
    return true;
  }

  reinstate(): void {
    this.failures = 0;
    this.suspended_until_s = null;
  }

  /** What waited too long for an endpoint that takes nothing is failed. */
  giveUp(now_s: number): void {
    if (this.is_active && !this.isSuspended(now_s)) return;
    for (const one of this.deliveries.values()) {
      if (one.status !== "pending" || one.flight !== null || one.due_s > now_s - KEEP_S) continue;
      one.status = "failed";
    }
  }

  replayFailed(now_s: number): void {
    for (const one of this.deliveries.values())
      if (one.status === "failed") Object.assign(one, { status: "pending", attempts: 0, due_s: now_s, flight: null });
  }
}

/** An earlier event of the operation whose first attempt has not ended. */
function holdsBack(later: ModelDelivery): (earlier: ModelDelivery) => boolean {
  return (earlier) =>
    earlier.operation === later.operation && earlier.version < later.version && earlier.attempts === 0;
}
