/** Days of a calendar (`2026-03-31`, here) as moments of a request. Pure. */

const DAY = /^(\d{4})-(\d{2})-(\d{2})$/;

function midnight(day: string | null, later: number): string | null {
  const found = DAY.exec(day ?? "");
  if (found === null) return null;
  const [year, month, date] = found.slice(1).map(Number) as [number, number, number];
  const begin = new Date(year, month - 1, date);
  if (begin.getMonth() !== month - 1 || begin.getDate() !== date) return null; // February has no 31st
  const moment = new Date(year, month - 1, date + later);
  // Years before and after these are written, or kept, in other ways.
  return year < 1971 || moment.getUTCFullYear() > 9999 ? null : moment.toISOString();
}

/** The beginning of a day; null for what is none. */
export function dayBegins(day: string | null): string | null {
  return midnight(day, 0);
}

/** The beginning of the next. */
export function dayEnds(day: string | null): string | null {
  return midnight(day, 1);
}

/** A day of a link; empty where it is none that a request can have. */
export function dayIn(text: string | null): string {
  return dayBegins(text) === null || dayEnds(text) === null ? "" : (text ?? "");
}

export function dayOf(moment: Date): string {
  const two = (value: number) => String(value).padStart(2, "0");
  return `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
}
