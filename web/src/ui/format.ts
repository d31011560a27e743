/** Figures and times as people read them. */

const number = new Intl.NumberFormat("en");

export function count(value: number): string {
  return number.format(value);
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** `0.42 s`, `12 s`, `3 min 20 s`, `2 h 5 min`. */
export function duration(seconds: number): string {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 0.01) return "0 s";
  // Rounded first: what is no full hour by a second is one.
  if (seconds < 0.995) return `${seconds.toFixed(2)} s`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return joined(Math.floor(whole / 60), "min", whole % 60, "s");
  const minutes = Math.round(seconds / 60);
  if (minutes < 1440) return joined(Math.floor(minutes / 60), "h", minutes % 60, "min");
  const hours = Math.round(seconds / 3600);
  return joined(Math.floor(hours / 24), "d", hours % 24, "h");
}

function joined(large: number, unit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large} ${unit}` : `${large} ${unit} ${small} ${smallUnit}`;
}

export function bytes(value: number): string {
  if (value < 1000) return `${value} B`;
  for (const unit of ["kB", "MB", "GB"]) {
    value /= 1000;
    if (value < 999.5) return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${unit}`;
  }
  return `${(value / 1000).toFixed(1)} TB`;
}

export function percent(share: number): string {
  return `${Math.floor(share * 100)}%`;
}

export function money(dollars: number): string {
  if (dollars === 0) return "$0";
  if (dollars < 0.01) return `$${dollars.toPrecision(2)}`;
  return `$${dollars.toFixed(dollars < 100 ? 2 : 0)}`;
}

const clockTime = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const dayTime = new Intl.DateTimeFormat(undefined, {
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
});
const otherYear = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export function exactTime(iso: string): string {
  return whole.format(new Date(iso));
}

export function exactDay(iso: string): string {
  return otherYear.format(new Date(iso));
}

/** `just now`, `5 min ago`, `14:03`, `12 Nov, 09:30`. */
export function when(iso: string, now = Date.now()): string {
  const then = new Date(iso);
  const ago = (now - then.getTime()) / 1000;
  if (then.getFullYear() !== new Date(now).getFullYear()) return otherYear.format(then);
  if (ago < -60) return dayTime.format(then);
  if (ago < 10) return "just now";
  if (ago < 60) return `${Math.floor(ago)} s ago`;
  if (ago < 3600) return `${Math.floor(ago / 60)} min ago`;
  if (ago < 86400 && then.getDate() === new Date(now).getDate()) return clockTime.format(then);
  return dayTime.format(then);
}

export function shortId(id: string): string {
  return id.slice(-8);
}
