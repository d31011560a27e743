/** Values of workflows and parameters as a text on one line or several. */

import { LargeInteger } from "../api/exact_json";

const LONGEST = 20_000;

/** Whole numbers of 64 bits keep all their digits. */
export function valueText(value: unknown): string {
  if (typeof value === "string") return value.slice(0, LONGEST);
  if (value === null || value === undefined) return "–";
  if (typeof value !== "object" || value instanceof LargeInteger) return String(value);
  return JSON.stringify(value).slice(0, LONGEST);
}

/** On one line, cut where it is long; numbers have six digits that count. */
export function shortValue(value: unknown, most = 60): string {
  const isLong = typeof value === "number" && !Number.isInteger(value);
  const shown = isLong ? Number(value.toPrecision(6)) : value;
  const text = valueText(shown).replaceAll(/\s+/g, " ");
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}
