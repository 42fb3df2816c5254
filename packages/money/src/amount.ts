// Amounts are bigints in the asset's minor unit, everywhere inside the house.

/** The largest amount that a JSON number carries exactly, 2^53-1; nothing above it is ever accepted or created. */
export const MAX_MINOR = 9_007_199_254_740_991n;

/** The decimal text of an amount, with exactly the asset's number of decimals: 1500 is `15.00` for GHS, `1500` for XOF. */
export function formatMinor(amount: bigint, scale: number): string {
  if (!Number.isInteger(scale) || scale < 0) throw new Error(`a scale is a whole number from 0: ${scale}`);
  const sign = amount < 0n ? "-" : "";
  const digits = (amount < 0n ? -amount : amount).toString().padStart(scale + 1, "0");
  if (scale === 0) return sign + digits;
  return `${sign}${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}
