/** A long list, newest first, and a newer first page of it: what the list is then. Pure. */

export interface Paged<T> {
  items: readonly T[];
  /** Where the rest begins; null: there is no more. */
  next: string | null;
}

export interface Merged<T> extends Paged<T> {
  /** Those that the list did not have, newest first: at the head of `items`. */
  fresh: readonly T[];
}

/**
 * Ids grow with time. What the page should have and has not is gone from the list. A page that does
 * not reach what we have leaves a gap: then it is the whole list, and the rest comes with its cursor.
 */
export function mergeFirstPage<T>(
  old: Paged<T>,
  page: Paged<T>,
  idOf: (item: T) => string,
): Merged<T> {
  const newest = old.items[0];
  const last = page.items.at(-1);
  if (newest === undefined || page.next === null || last === undefined) {
    return { ...page, fresh: notIn(old, page, idOf) };
  }
  const end = idOf(last);
  if (end > idOf(newest)) return { ...page, fresh: page.items };
  const rest = old.items.filter((each) => idOf(each) < end);
  // A page that ends behind the last that we have knows better where the rest begins.
  const next = rest.length === 0 ? page.next : old.next;
  return { items: [...page.items, ...rest], next, fresh: notIn(old, page, idOf) };
}

/** Only those that are newer than all that we have: older ones came to fit the filter. */
function notIn<T>(old: Paged<T>, page: Paged<T>, idOf: (item: T) => string): T[] {
  const newest = old.items[0];
  if (newest === undefined) return [...page.items];
  return page.items.filter((each) => idOf(each) > idOf(newest));
}

export function appendPage<T>(old: Paged<T>, page: Paged<T>, idOf: (item: T) => string): Paged<T> {
  const last = old.items.at(-1);
  const more =
    last === undefined ? page.items : page.items.filter((each) => idOf(each) < idOf(last));
  return { items: [...old.items, ...more], next: page.next };
}
