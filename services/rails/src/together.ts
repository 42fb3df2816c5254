// How callers of the same moment share a statement in this room; each of its batches only writes what a repeat finds written.

export const TOGETHER = {
  /** Bounds a statement, and with it how long it holds its locks. */
  max_batch: 100,
  /** More are refused: what was not taken is repeated by its caller, an operator too. */
  max_waiting: 2_000,
  /** One that cannot be written fails alone. */
  retry_alone: true,
  /** A few milliseconds of a call that an operator answers in hundreds; a lone caller does not wait. */
  gap_ms: 4,
} as const;
