/**
 * A long list of the server, newest first: pages come when its end is in sight, newer entries by
 * events. It outlives its view, so that Back finds it as it was.
 */

import { batch, signal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { ApiError } from "../api/client";
import { appendPage, mergeFirstPage, type Paged } from "./merging";
import { asApiError } from "./resource";
import { connection, type LiveEvent, onEvents, resync } from "./stream";

export interface Source<T> {
  load: (cursor: string | null, limit: number, signal: AbortSignal) => Promise<Paged<T>>;
  idOf: (item: T) => string;
  pageSize: number;
}

/** Loads that follow each other are this far apart at least. */
const APART_MS = 1_000;

export class Listing<T> {
  /** Null until the first page is there. */
  readonly items = signal<readonly T[] | null>(null);
  /** Newer ones that are not shown yet, so that nothing moves under somebody's eyes. */
  readonly held = signal<readonly T[]>([]);
  readonly error = signal<ApiError | null>(null);
  readonly isLoading = signal(false);
  readonly next = signal<string | null>(null);
  private running: AbortController | null = null;
  private isReaching = false;
  private due: ReturnType<typeof setTimeout> | undefined;
  private dueLimit = 0;
  private refreshedAt = 0;
  /** What was held back does not reach what is shown: it is the list then, with this cursor. */
  private apart: Paged<T> | null = null;

  constructor(
    readonly source: Source<T>,
    /** Whether newer ones may be put on top now. */
    public mayShow: () => boolean = () => true,
  ) {}

  /** The first page; again where that has failed, and newer ones where it was there already. */
  start(): void {
    if (this.items.peek() === null) void this.loadFirst();
    else this.refreshSoon(this.source.pageSize);
  }

  stop(): void {
    this.running?.abort();
    this.running = null;
    this.isReaching = false;
    clearTimeout(this.due);
    this.due = undefined;
    this.isLoading.value = false;
  }

  retry(): void {
    this.error.value = null;
    if (this.items.peek() === null) void this.loadFirst();
    else if (this.next.peek() !== null) void this.more();
  }

  private async loadFirst(): Promise<void> {
    const page = await this.loaded(null, this.source.pageSize);
    if (page === null) return;
    batch(() => {
      this.items.value = page.items;
      this.next.value = page.next;
    });
  }

  async more(): Promise<void> {
    const cursor = this.next.peek();
    if (cursor === null || this.isReaching || this.error.peek() !== null) return;
    this.isReaching = true;
    const page = await this.loaded(cursor, this.source.pageSize);
    this.isReaching = false;
    if (page === null || this.next.peek() !== cursor) return;
    this.put(appendPage(this.state(), page, this.source.idOf));
  }

  /** A newer beginning of the list, soon; those who ask meanwhile get the same. */
  refreshSoon(limit: number): void {
    this.dueLimit = Math.max(this.dueLimit, Math.min(limit, this.source.pageSize));
    if (this.due !== undefined) return;
    const pause = Math.max(0, this.refreshedAt + APART_MS - performance.now());
    this.due = setTimeout(() => {
      this.due = undefined;
      void this.refresh();
    }, pause);
  }

  private async refresh(): Promise<void> {
    const limit = this.dueLimit;
    this.dueLimit = 0;
    this.refreshedAt = performance.now();
    if (this.items.peek() === null) {
      await this.loadFirst();
      return;
    }
    let page = await this.loaded(null, limit);
    if (page === null) return;
    if (!this.reaches(page) && limit < this.source.pageSize) {
      page = await this.loaded(null, this.source.pageSize);
      if (page === null) return;
    }
    const { items, next, fresh } = mergeFirstPage(this.state(), page, this.source.idOf);
    if (this.mayShow()) {
      this.put({ items, next });
      this.held.value = [];
      this.apart = null;
      return;
    }
    this.apart = this.reaches(page) ? null : page;
    if (this.apart === null) this.put({ items: items.slice(fresh.length), next });
    this.held.value = fresh;
  }

  private reaches(page: Paged<T>): boolean {
    const newest = this.items.peek()?.[0];
    const last = page.items.at(-1);
    if (newest === undefined || last === undefined || page.next === null) return true;
    return this.source.idOf(last) <= this.source.idOf(newest);
  }

  /** Put in what was held back; the server is asked, as it may have changed meanwhile. */
  showHeld(): void {
    const { items, next } = this.state();
    this.put(this.apart ?? { items: [...this.held.peek(), ...items], next });
    this.apart = null;
    this.held.value = [];
    this.refreshSoon(this.source.pageSize);
  }

  replace(item: T): void {
    const { idOf } = this.source;
    const items = this.items.peek();
    const at = items?.findIndex((each) => idOf(each) === idOf(item)) ?? -1;
    if (items === null || at < 0) return;
    this.items.value = items.with(at, item);
  }

  drop(ids: ReadonlySet<string>): void {
    const { idOf } = this.source;
    const items = this.items.peek();
    if (items !== null) this.items.value = items.filter((each) => !ids.has(idOf(each)));
    this.held.value = this.held.peek().filter((each) => !ids.has(idOf(each)));
  }

  private state(): Paged<T> {
    return { items: this.items.peek() ?? [], next: this.next.peek() };
  }

  private put({ items, next }: Paged<T>): void {
    batch(() => {
      this.items.value = items;
      this.next.value = next;
    });
  }

  /** Null where it was stopped, or has failed; then `error` says why. */
  private async loaded(cursor: string | null, limit: number): Promise<Paged<T> | null> {
    this.running ??= new AbortController();
    const { signal } = this.running;
    this.isLoading.value = true;
    try {
      const page = await this.source.load(cursor, limit, signal);
      if (signal.aborted) return null;
      this.error.value = null;
      return page;
    } catch (error) {
      if (!signal.aborted) this.error.value = asApiError(error);
      return null;
    } finally {
      if (!signal.aborted) this.isLoading.value = false;
    }
  }
}

/** The lists that were looked at last, by what they show. */
const MOST_KEPT = 4;
const kept = new Map<string, Listing<unknown>>();

function listingOf<T>(key: string, source: () => Source<T>): Listing<T> {
  const found = (kept.get(key) as Listing<T> | undefined) ?? new Listing(source());
  kept.delete(key);
  kept.set(key, found as Listing<unknown>);
  for (const oldest of kept.keys()) {
    if (kept.size <= MOST_KEPT) break;
    kept.delete(oldest);
  }
  return found;
}

/** How far down newer ones are held back, in pixels. */
const TOP_PIXELS = 120;

/** `key` says what is listed. `take` is given what happens, to refresh what that concerns. */
export function useListing<T>(
  key: string,
  source: () => Source<T>,
  take: (listing: Listing<T>, events: LiveEvent[]) => void,
): Listing<T> {
  const listing = useMemo(() => listingOf(key, source), [key]);
  const taking = useRef(take);
  taking.current = take;
  useEffect(() => {
    listing.mayShow = () => scrollY < TOP_PIXELS;
    listing.start();
    const stop = onEvents((events) => taking.current(listing, events));
    const look = () => {
      if (listing.held.peek().length > 0 && listing.mayShow()) listing.showHeld();
    };
    addEventListener("scroll", look, { passive: true });
    return () => {
      removeEventListener("scroll", look);
      stop();
      listing.stop();
    };
  }, [listing]);
  const again = useRef({ resync: resync.peek(), wasAway: false });
  useSignalEffect(() => {
    const now = { resync: resync.value, wasAway: connection.value === "away" };
    const isBack = again.current.wasAway && connection.value === "live";
    if (isBack || now.resync !== again.current.resync) {
      listing.error.value = null;
      listing.refreshSoon(listing.source.pageSize);
    }
    again.current = now;
  });
  useKeptScroll(key, listing.items.value !== null);
  return listing;
}

/** Where one was in each list, so that Back leads there. */
const places = new Map<string, number>();

/** A step of the history that shows a list is marked; one that is marked already was come back to. */
function useKeptScroll(key: string, isThere: boolean): void {
  const isReturn = useMemo(() => isMarked(key), [key]);
  useEffect(() => {
    if (!isThere) return;
    const top = places.get(key) ?? 0;
    // Behind the frame's own way to the top.
    const timer = setTimeout(() => {
      if (isReturn && top > 0) scrollTo(0, top);
    });
    const here = path();
    const keep = () => {
      if (path() !== here) return; // on the way to another view
      if (!isMarked(key)) history.replaceState({ list: key }, "");
      places.set(key, scrollY);
    };
    if (!isReturn) keep();
    addEventListener("scroll", keep, { passive: true });
    return () => {
      clearTimeout(timer);
      removeEventListener("scroll", keep);
    };
  }, [key, isThere]);
}

function path(): string | undefined {
  return location.hash.split("?")[0];
}

function isMarked(key: string): boolean {
  return (history.state as { list?: string } | null)?.list === key;
}
