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
    const all = [...this.deliveries.values()];
    const pending = all.filter(({ status }) => status === "pending");
    const holdsBack = (later: ModelDelivery) => (earlier: ModelDelivery) =>
      earlier.operation === later.operation && earlier.version < later.version && earlier.attempts === 0;
    const from = pending
      .filter(({ due_s, flight }) => due_s <= now_s && flight?.live !== true)
      .filter((one) => one.attempts > 0 || !pending.some(holdsBack(one)));
    const share = Math.floor(bounds.per_account / endpoints);
    const room = Math.max(1, Math.min(bounds.per_endpoint, SUSPEND_AFTER - this.failures, share));
    const flying = all.filter(({ flight }) => flight?.live === true).length;
    return { from, count: Math.min(from.length, Math.max(0, room - flying)) };
  }

  /** An attempt ended: it counts for the endpoint in any case, and moves the delivery if nobody took it over. */
  end(id: string, no: bigint, delivered: boolean, now_s: number): void {
    if (delivered) this.reinstate();
    else {
      this.failures += 1;
      if (this.failures >= SUSPEND_AFTER && !this.isSuspended(now_s)) this.suspended_until_s = now_s + SUSPEND_S;
    }
    const one = this.deliveries.get(id);
    if (one?.flight?.no !== no) return;
    one.flight = null;
    const step_s = LADDER_S[one.attempts];
    one.attempts += 1;
    if (delivered) one.status = "delivered";
    else if (step_s === undefined) one.status = "failed";
    else one.due_s = now_s + step_s;
  }

  reinstate(): void {
    this.failures = 0;
    this.suspended_until_s = null;
  }

  /** What waited too long for an endpoint that takes nothing is failed. */
  giveUp(now_s: number): void {
    if (this.is_active && !this.isSuspended(now_s)) return;
    for (const one of this.deliveries.values()) {
      if (one.status !== "pending" || one.flight?.live === true || one.due_s > now_s - KEEP_S) continue;
      one.status = "failed";
      one.flight = null;
    }
  }

  replayFailed(now_s: number): void {
    for (const one of this.deliveries.values())
      if (one.status === "failed") Object.assign(one, { status: "pending", attempts: 0, due_s: now_s, flight: null });
  }
}
