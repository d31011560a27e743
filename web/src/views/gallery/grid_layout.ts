/** How many pictures stand side by side, and which are between two. Pure. */

export const GAP = 8;
const NARROW = 520;
const LEAST_CELL = 168;
const LEAST_CELL_NARROW = 104;

export interface Cells {
  columns: number;
  /** Pixels a side: they are squares. */
  side: number;
}

export function cellsIn(width: number): Cells {
  const least = width < NARROW ? LEAST_CELL_NARROW : LEAST_CELL;
  const columns = Math.max(2, Math.floor((width + GAP) / (least + GAP)));
  return { columns, side: Math.max(40, (width - GAP * (columns - 1)) / columns) };
}

export function rowsOf<T>(items: readonly T[], columns: number): T[][] {
  const rows: T[][] = [];
  for (let at = 0; at < items.length; at += columns) rows.push(items.slice(at, at + columns));
  return rows;
}

/** All from the one to the other, whichever comes first; only the second where the first is gone. */
export function between(ids: readonly string[], from: string | null, to: string): string[] {
  const end = ids.indexOf(to);
  const start = from === null ? -1 : ids.indexOf(from);
  if (start < 0 || end < 0) return [to];
  return ids.slice(Math.min(start, end), Math.max(start, end) + 1);
}
