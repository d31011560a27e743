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

/**
 * A newer page of what comes behind `after`, which is right for all that it spans: what it should have
 * and has not is gone from the list.
 */
export function mergePage<T>(
  old: Paged<T>,
  after: string,
  page: Paged<T>,
  idOf: (item: T) => string,
): Paged<T> {
  const above = old.items.filter((each) => idOf(each) >= after);
  const last = page.items.at(-1);
  if (page.next === null || last === undefined) {
    return { items: [...above, ...page.items], next: page.next };
  }
  const below = old.items.filter((each) => idOf(each) < idOf(last));
  const next = below.length === 0 ? page.next : old.next;
  return { items: [...above, ...page.items, ...below], next };
}

/** Where in the list it is, or would be: the first place that is not newer. */
export function placeOf<T>(items: readonly T[], id: string, idOf: (item: T) => string): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (idOf(items[middle] as T) > id) low = middle + 1;
    else high = middle;
  }
  return low;
}
