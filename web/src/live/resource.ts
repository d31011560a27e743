/** Data of the server that a view shows: loaded, kept fresh by events, with its errors. */

import { useSignal, useSignalEffect } from "@preact/signals";
import { useCallback, useEffect, useRef } from "preact/hooks";
import { ApiError } from "../api/client";
import { connection, onEvents, resync } from "./stream";

export interface Resource<T> {
  data: T | null;
  error: ApiError | null;
  reload: () => void;
  /** Put in something newer than the last load. */
  set: (data: T) => void;
}

export interface Freshness {
  /** Types of events after which it is loaded again: `execution.completed`, or `worker.*`. */
  on?: readonly string[];
  /** Only for events that this one lets through. */
  where?: (data: { execution_id: string | null; batch_id: string | null }) => boolean;
  /** Once loaded it stays as it is, until it is loaded again by hand. */
  isFixed?: boolean;
  /** And every so many seconds, for what no event tells of. */
  every?: number;
}

/** Loads that follow each other are this far apart at least. */
const APART_MS = 1_000;

/**
 * `key` says what is loaded: another key is another thing, null is nothing. While it is loaded again
 * the old data stays, so that nothing flickers. A load that the server did not answer is tried again
 * when it is back.
 */
export function useResource<T>(
  key: string | null,
  load: (signal: AbortSignal) => Promise<T>,
  fresh: Freshness = {},
): Resource<T> {
  const state = useSignal<{ key: string | null; data: T | null; error: ApiError | null }>({
    key: null,
    data: null,
    error: null,
  });
  const current = useRef({ load, key, fresh });
  current.current = { load, key, fresh };
  const running = useRef<AbortController | null>(null);
  const due = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const loadedAt = useRef(0);
  const again = useRef(false);

  const loadNow = useCallback(async () => {
    const wanted = current.current.key;
    if (wanted === null) return;
    if (running.current !== null) {
      again.current = true;
      return;
    }
    const controller = new AbortController();
    running.current = controller;
    loadedAt.current = performance.now();
    try {
      const data = await current.current.load(controller.signal);
      if (!controller.signal.aborted) state.value = { key: wanted, data, error: null };
    } catch (error) {
      if (controller.signal.aborted) return;
      const old = state.peek();
      const data = old.key === wanted ? old.data : null;
      state.value = { key: wanted, data, error: asApiError(error) };
    } finally {
      if (running.current === controller) {
        running.current = null;
        if (again.current) {
          again.current = false;
          soon();
        }
      }
    }
  }, []);

  const soon = useCallback(() => {
    if (due.current !== undefined) return;
    const pause = Math.max(0, loadedAt.current + APART_MS - performance.now());
    due.current = setTimeout(() => {
      due.current = undefined;
      void loadNow();
    }, pause);
  }, []);

  useEffect(() => {
    if (key !== null) void loadNow();
    return () => {
      running.current?.abort();
      running.current = null;
      again.current = false;
      clearTimeout(due.current);
      due.current = undefined;
    };
  }, [key]);

  useEffect(
    () =>
      onEvents((events) => {
        const { on, where } = current.current.fresh;
        if (on === undefined) return;
        const concerns = (type: string) =>
          on.some((each) =>
            each.endsWith("*") ? type.startsWith(each.slice(0, -1)) : each === type,
          );
        if (events.some((each) => concerns(each.type) && (where?.(each) ?? true))) soon();
      }),
    [],
  );

  useEffect(() => {
    if (fresh.every === undefined) return;
    const timer = setInterval(() => {
      if (document.visibilityState === "visible" && connection.peek() === "live") soon();
    }, fresh.every * 1_000);
    return () => clearInterval(timer);
  }, [fresh.every]);

  const isLoose = () => current.current.fresh.isFixed !== true || state.peek().data === null;
  const firstSync = useRef(true);
  useSignalEffect(() => {
    resync.value;
    if (firstSync.current) firstSync.current = false;
    else if (isLoose()) soon();
  });
  const wasAway = useRef(false);
  useSignalEffect(() => {
    const now = connection.value;
    if (now === "live" && wasAway.current && isLoose()) soon();
    wasAway.current = now === "away";
  });

  const { key: of, data, error } = state.value;
  const isOurs = of === key;
  return {
    data: isOurs ? data : null,
    error: isOurs ? error : null,
    reload: () => void loadNow(),
    set: (newer: T) => {
      state.value = { key: current.current.key, data: newer, error: null };
    },
  };
}

export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  console.error(error);
  return new ApiError(-1, "PAGE_FAULT", "The page itself has failed. Reload it.");
}
