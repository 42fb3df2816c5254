// Rows out of array parameters, for statements that write or look for many rows at once.

/**
 * A subquery whose rows are the arrays `$first`, `$first + 1` and so on side by side, of these columns: `"id text, n bigint"`;
 * `ord` counts them from 1. To PostgreSQL `unnest` of several arrays is a function, a store of rows and a memory for each,
 * made anew for every statement: some 10 us of CPU per array, whether it holds one row or fifty. Here the first one alone is
 * unnested, and the others are read at its place (decision 0185).
 */
export function rowsOf(columns: string, first = 1): string {
  const listed = columns.split(",").map((column, at) => {
    const [name = "", type = ""] = column.trim().split(/\s+/);
    return { name, array: `$${first + at}::${type}[]` };
  });
  const read = listed.map(({ name, array }, at) => (at === 0 ? `r.lead as ${name}` : `(${array})[r.ord] as ${name}`));
  return `(select ${read.join(", ")}, r.ord from unnest(${listed[0]?.array}) with ordinality as r (lead, ord))`;
}
