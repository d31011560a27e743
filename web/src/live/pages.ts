/**
 * A list of the server that comes in pages, in whatever order: the first is kept fresh as long as it is
 * the only one. Long lists that go on by themselves are in listing.ts.
 */

import { useEffect, useRef, useState } from "preact/hooks";
import type { ApiError } from "../api/client";
import { asApiError, type Freshness, useResource } from "./resource";

interface Page<T> {
  items: T[];
  next: string | null;
}

export interface Pages<T> {
  /** Null until the first page is there. */
  items: readonly T[] | null;
  error: ApiError | null;
  /** Undefined where there is nothing more, or more is under way. */
  more: (() => void) | undefined;
  reload: () => void;
}

/** Once there are more pages the list stands still, until it is loaded again by `reload`. */
export function usePages<T>(
  key: string | null,
  load: (cursor: string | null, signal: AbortSignal) => Promise<Page<T>>,
  fresh: Freshness = {},
): Pages<T> {
  const [further, setFurther] = useState<{ of: Page<T> | null; items: T[]; next: string | null }>({
    of: null,
    items: [],
    next: null,
  });
  const first = useResource(
    key,
    (signal) => load(null, signal),
    further.items.length === 0 ? fresh : {},
  );
  const [error, setError] = useState<ApiError | null>(null);
  const running = useRef<AbortController | null>(null);
  const [isBusy, setBusy] = useState(false);
  useEffect(
    () => () => {
      running.current?.abort();
      running.current = null;
    },
    [key],
  );
  const isOurs = further.of === first.data;
  const next = isOurs && further.of !== null ? further.next : (first.data?.next ?? null);
  const more = async () => {
    const of = first.data;
    if (next === null || running.current !== null || of === null) return;
    const controller = new AbortController();
    running.current = controller;
    setBusy(true);
    setError(null);
    try {
      const page = await load(next, controller.signal);
      setFurther({ of, items: [...(isOurs ? further.items : []), ...page.items], next: page.next });
    } catch (caught) {
      if (!controller.signal.aborted) setError(asApiError(caught));
    } finally {
      running.current = null;
      setBusy(false);
    }
  };
  return {
    items: first.data === null ? null : [...first.data.items, ...(isOurs ? further.items : [])],
    error: first.error ?? error,
    more: next === null || isBusy ? undefined : () => void more(),
    reload: first.reload,
  };
}
