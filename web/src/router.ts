/**
 * Where one is, in the URL's fragment: `#/jobs/ID?tab=log`. A link opens the same view, and Back goes
 * back. The server has only `/`.
 */

import { computed, signal } from "@preact/signals";

export interface Place {
  /** `["jobs", "01a1…"]` */
  parts: string[];
  query: URLSearchParams;
}

const fragment = signal(location.hash);
addEventListener("hashchange", () => {
  fragment.value = location.hash;
});

export const place = computed<Place>(() => parse(fragment.value));

export function parse(hash: string): Place {
  const text = hash.replace(/^#/, "");
  const at = text.indexOf("?");
  const path = at < 0 ? text : text.slice(0, at);
  const parts = path
    .split("/")
    .filter((each) => each !== "")
    .map(decoded);
  return { parts, query: new URLSearchParams(at < 0 ? "" : text.slice(at + 1)) };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

type QueryValues = Record<string, string | number | boolean | null | undefined>;

/** The link to a view: `href(["jobs", id], { tab: "log" })`. Empty values are left out. */
export function href(parts: string[], query: QueryValues = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "" && value !== false) {
      search.set(name, value === true ? "1" : String(value));
    }
  }
  const text = search.toString();
  const path = parts.map((each) => encodeURIComponent(each).replaceAll("%40", "@")).join("/");
  return `#/${path}${text === "" ? "" : `?${text}`}`;
}

export function go(link: string): void {
  location.hash = link;
}

/** Change the query of this view without a step in the history (filters, tabs, typed values). */
export function setQuery(changes: QueryValues): void {
  const { parts, query } = place.peek();
  const values: QueryValues = { ...Object.fromEntries(query), ...changes };
  const link = href(parts, values);
  if (link === location.hash) return;
  history.replaceState(null, "", link);
  fragment.value = link;
}
