/**
 * What somebody has set in a form. It is in the URL, so that a link, a reload and Back find it again;
 * texts that are too long for that are kept in this tab.
 */

import { useEffect, useRef, useState } from "preact/hooks";
import { parseExact } from "../../api/exact_json";
import { place, setQuery } from "../../router";
import { type Control, isSame, VALUE_PREFIX, valuesFromQuery, valuesToQuery } from "./form_model";

export interface Options {
  priority: number;
  times: number;
  name: string;
}

export const MOST_TIMES = 64;

interface State {
  values: ReadonlyMap<string, unknown>;
  /** Seeds that stay as they are; null: as the source has it. */
  fixed: ReadonlySet<string> | null;
  options: Options;
}

export interface Draft {
  values: ReadonlyMap<string, unknown>;
  fixed: ReadonlySet<string>;
  options: Options;
  /** It does not fit into an address: a link to it would lack it. */
  isLong: boolean;
  set: (control: Control, value: unknown) => void;
  setFixed: (target: string, isFixed: boolean) => void;
  setOptions: (options: Options) => void;
  reset: () => void;
  /** Into the URL now, before one goes elsewhere. */
  flush: () => void;
}

/** Browsers refuse addresses that change with every key. */
const PAUSE_MS = 300;
const NONE = "-";
const OWN = ["fixed", "times", "priority", "draft"];

/** `of` says which form it is; `keepsSeeds`: whether seeds stay unless somebody wants others. */
export function useDraft(
  of: string,
  query: URLSearchParams,
  seeds: readonly Control[],
  keepsSeeds: boolean,
): Draft {
  const [state, setState] = useState(() => read(of, query));
  const inUrl = textOf(query);
  const written = useRef(inUrl);
  const latest = useRef(state);
  latest.current = state;
  const isDirty = useRef(false);

  useEffect(() => {
    // Another link to the same form, or Back.
    if (inUrl === written.current) return;
    written.current = inUrl;
    isDirty.current = false;
    setState(read(of, query));
  }, [inUrl]);

  const flush = () => {
    if (!isDirty.current) return;
    isDirty.current = false;
    setQuery(write(of, latest.current, place.peek().query));
    written.current = textOf(place.peek().query);
  };
  useEffect(() => {
    if (!isDirty.current) return;
    const timer = setTimeout(flush, PAUSE_MS);
    return () => clearTimeout(timer);
  }, [state]);

  const change = (make: (old: State) => State) => {
    isDirty.current = true;
    setState((old) => {
      const next = make(old);
      latest.current = next;
      return next;
    });
  };
  const fixed = state.fixed ?? fixedAtFirst(seeds, keepsSeeds, state.values);
  return {
    values: state.values,
    fixed,
    options: state.options,
    isLong: !valuesToQuery(state.values).fits,
    set: (control, value) =>
      change((old) => {
        const values = new Map(old.values);
        if (isSame(value, control.value)) values.delete(control.target);
        else values.set(control.target, value);
        return { ...old, values };
      }),
    setFixed: (target, isFixed) =>
      change((old) => {
        const next = new Set(old.fixed ?? fixedAtFirst(seeds, keepsSeeds, old.values));
        if (isFixed) next.add(target);
        else next.delete(target);
        return { ...old, fixed: next };
      }),
    setOptions: (options) => change((old) => ({ ...old, options })),
    reset: () => change((old) => ({ ...old, values: new Map() })),
    flush,
  };
}

function fixedAtFirst(
  seeds: readonly Control[],
  keepsSeeds: boolean,
  values: ReadonlyMap<string, unknown>,
): Set<string> {
  const kept = seeds.filter((each) => keepsSeeds || values.has(each.target));
  return new Set(kept.map((each) => each.target));
}

function read(of: string, query: URLSearchParams): State {
  const values = query.has("draft") ? readLong(of) : valuesFromQuery(query, parseExact);
  const fixed = query.get("fixed");
  return {
    values,
    fixed: fixed === null ? null : new Set(fixed === NONE ? [] : fixed.split(",")),
    options: {
      times: within(query.get("times"), 1, MOST_TIMES, 1),
      priority: within(query.get("priority"), 1, 10, 5),
      name: "",
    },
  };
}

function within(text: string | null, low: number, high: number, otherwise: number): number {
  const value = Math.round(Number(text));
  return text === null || Number.isNaN(value) ? otherwise : Math.min(high, Math.max(low, value));
}

function write(of: string, state: State, old: URLSearchParams): Record<string, string | null> {
  const changes: Record<string, string | null> = {};
  for (const name of old.keys()) if (isOurs(name)) changes[name] = null;
  const { query, fits } = valuesToQuery(state.values);
  const { times, priority } = state.options;
  if (!fits) keepLong(of, state.values);
  return {
    ...changes,
    ...query,
    ...(fits ? {} : { draft: "1" }),
    ...(state.fixed === null ? {} : { fixed: [...state.fixed].join(",") || NONE }),
    ...(times === 1 ? {} : { times: String(times) }),
    ...(priority === 5 ? {} : { priority: String(priority) }),
  };
}

function isOurs(name: string): boolean {
  return name.startsWith(VALUE_PREFIX) || OWN.includes(name);
}

/** What of a query is a draft's, as one text. */
function textOf(query: URLSearchParams): string {
  const ours = [...query].filter(([name]) => isOurs(name));
  return JSON.stringify(ours.sort(([one], [other]) => (one < other ? -1 : 1)));
}

const LONG = "comfyrail-draft/";

function keepLong(of: string, values: ReadonlyMap<string, unknown>): void {
  try {
    sessionStorage.setItem(LONG + of, JSON.stringify([...values]));
  } catch {
    // a tab that keeps nothing: a reload loses it
  }
}

function readLong(of: string): Map<string, unknown> {
  try {
    return new Map(parseExact<[string, unknown][]>(sessionStorage.getItem(LONG + of) ?? "[]"));
  } catch {
    return new Map();
  }
}
