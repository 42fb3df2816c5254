// The machine's clock as a value, so that pure code takes the time as an argument and tests choose it.
// A business time comes from `@cauri/store/clock`, which adds the account's offset in test mode.

/** Epoch milliseconds. */
export type Clock = () => number;

export const systemClock: Clock = () => Date.now();
