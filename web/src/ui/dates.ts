/** Days of a calendar (`2026-03-31`, here) as moments of a request. Pure. */

const DAY = /^(\d{4})-(\d{2})-(\d{2})$/;

function midnight(day: string | null, later: number): string | null {
  const found = DAY.exec(day ?? "");
  if (found === null) return null;
  const [year, month, date] = found.slice(1).map(Number) as [number, number, number];
  const moment = new Date(year, month - 1, date + later);
  return Number.isNaN(moment.getTime()) || year < 1971 ? null : moment.toISOString();
}

/** The beginning of a day; null for what is none. */
export function dayBegins(day: string | null): string | null {
  return midnight(day, 0);
}

/** The beginning of the next. */
export function dayEnds(day: string | null): string | null {
  return midnight(day, 1);
}

export function dayOf(moment: Date): string {
  const two = (value: number) => String(value).padStart(2, "0");
  return `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
}
