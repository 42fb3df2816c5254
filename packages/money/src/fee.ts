// The fee of an operation: computed once, at creation, from one line of a fee schedule, and kept.

/** One line of a fee schedule; amounts in minor units of the operation's asset, the percentage in basis points. */
export type FeeLine = {
  readonly percent_bps: number;
  readonly fixed_minor: bigint;
  readonly min_minor: bigint | null;
  readonly max_minor: bigint | null;
};

const BPS_PER_WHOLE = 10_000n;

/** Percent (rounded half up to the minor unit) plus fixed, then clamped. No line costs nothing. */
export function computeFee(amount: bigint, line: FeeLine | null): bigint {
  if (line === null) return 0n;
  const percent = (amount * BigInt(line.percent_bps) + BPS_PER_WHOLE / 2n) / BPS_PER_WHOLE;
  const fee = percent + line.fixed_minor;
  if (line.max_minor !== null && fee > line.max_minor) return line.max_minor;
  if (line.min_minor !== null && fee < line.min_minor) return line.min_minor;
  return fee;
}
