/**
 * Rows of a long list that may be older than what the server has, and the places from which the list
 * can be loaded again. Ids are the newest first. Pure.
 */

import { placeOf } from "./merging";

/** A row, and the cursor of what comes behind it. */
export interface Mark {
  id: string;
  cursor: string;
}

/** What a page spans: behind `after` (null: from the top) down to `end` (null: to the very end). */
export interface Span {
  after: string | null;
  end: Mark | null;
  /** The turn at which it was asked for: what became old since then stays so. */
  turn: number;
}

const itself = (id: string) => id;

export class OldRows {
  /** Counts what made rows old. */
  turn = 0;
  /** Ids, and the turn that made them so. */
  private readonly old = new Map<string, number>();
  /** From the top down. */
  private marks: Mark[] = [];

  constructor(private readonly pageSize: number) {}

  get isEmpty(): boolean {
    return this.old.size === 0;
  }

  addAll(ids: Iterable<string>): void {
    this.turn += 1;
    for (const id of ids) this.old.set(id, this.turn);
  }

  /** One that is not in the list, but would be by its age, makes the row old that is in its place. */
  add(ids: readonly string[], turned: Iterable<string>): void {
    this.turn += 1;
    for (const id of turned) {
      const row = ids[placeOf(ids, id, itself)];
      if (row !== undefined) this.old.set(row, this.turn);
    }
  }

  clear(): void {
    this.old.clear();
  }

  /** The list goes on behind this row with this cursor. */
  mark(id: string, cursor: string): void {
    const at = this.marks.findIndex((each) => each.id <= id);
    if (this.marks[at]?.id === id) return;
    this.marks.splice(at < 0 ? this.marks.length : at, 0, { id, cursor });
  }

  /** The list ends with this row now. */
  cut(last: string | undefined): void {
    this.marks = last === undefined ? [] : this.marks.filter((each) => each.id >= last);
  }

  /**
   * What is to be loaded so that the rows in sight are right: so many rows behind `after`, or from the
   * top. Null: they are.
   */
  within(
    ids: readonly string[],
    [first, last]: readonly [number, number],
  ): { after: Mark | null; rows: number } | null {
    const found = ids.slice(first, last + 1).findIndex((each) => this.old.has(each));
    if (found < 0) return null;
    const id = ids[first + found] as string;
    const after = this.marks.findLast((each) => each.id > id) ?? null;
    const begin = after === null ? 0 : placeOf(ids, after.id, itself);
    return { after, rows: Math.min(last + 1, ids.length) - begin };
  }

  /** What a page spans is right now; where it ends far from other marks there is one more. */
  remove(ids: readonly string[], { after, end, turn }: Span): void {
    for (const [id, since] of this.old) {
      const isSpanned = (after === null || id < after) && (end === null || id >= end.id);
      if (isSpanned && since <= turn) this.old.delete(id);
    }
    if (end === null) return;
    const place = placeOf(ids, end.id, itself);
    const isNear = this.marks.some((each) => {
      const rows = place - placeOf(ids, each.id, itself);
      return rows >= 0 && rows < this.pageSize;
    });
    if (place >= this.pageSize && !isNear) this.mark(end.id, end.cursor);
  }
}
