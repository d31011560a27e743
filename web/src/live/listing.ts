/**
 * A long list of the server, newest first: pages come when its end is in sight, newer entries by
 * events. It outlives its view, so that Back finds it as it was.
 */

import { batch, signal } from "@preact/signals";
import type { ApiError } from "../api/client";
import { appendPage, mergeFirstPage, mergePage, type Paged } from "./merging";
import { OldRows } from "./old_rows";
import { asApiError } from "./resource";

export interface Source<T> {
  load: (cursor: string | null, limit: number, signal: AbortSignal) => Promise<Paged<T>>;
  idOf: (item: T) => string;
  pageSize: number;
}

/** Loads that follow each other are this far apart at least. */
const APART_MS = 1_000;
const LOOKS_APART_MS = 2_000;
/** Somebody who scrolls has stopped after this. */
const STOOD_MS = 150;
/** Rows that one request brings at most. */
const MOST_AT_ONCE = 500;
/** Rows that are loaded at most to reach those that are shown. */
const MOST_REACHED = 2_000;

export class Listing<T> {
  /** Null until the first page is there. */
  readonly items = signal<readonly T[] | null>(null);
  /** Newer ones that are not shown yet, so that nothing moves under somebody's eyes. */
  readonly held = signal<readonly T[]>([]);
  readonly error = signal<ApiError | null>(null);
  readonly next = signal<string | null>(null);
  private running: AbortController | null = null;
  private isReaching = false;
  private due: ReturnType<typeof setTimeout> | undefined;
  private dueLimit = 0;
  private refreshedAt = 0;
  private readonly old: OldRows;
  private looking: ReturnType<typeof setTimeout> | undefined;
  private lookedAt = Number.NEGATIVE_INFINITY;
  /** What was held back does not reach what is shown: it is the list then, with this cursor. */
  private apart: Paged<T> | null = null;

  constructor(
    readonly source: Source<T>,
    /** Whether newer ones may be put on top now. */
    public mayShow: () => boolean = () => true,
    /** The first and the last row in sight; null: this list only keeps its beginning fresh. */
    public inSight: () => readonly [number, number] | null = () => null,
  ) {
    this.old = new OldRows(source.pageSize);
  }

  /** The first page; again where that has failed, and newer ones where it was there already. */
  start(): void {
    if (this.items.peek() === null) void this.loadFirst();
    else this.renew();
  }

  /** Nobody knows what happened meanwhile: everything may be old. */
  renew(): void {
    this.old.addAll(this.ids());
    this.refreshSoon(this.source.pageSize);
    this.lookSoon();
  }

  stop(): void {
    this.running?.abort();
    this.running = null;
    this.isReaching = false;
    clearTimeout(this.due);
    this.due = undefined;
    clearTimeout(this.looking);
    this.looking = undefined;
  }

  retry(): void {
    this.error.value = null;
    if (this.items.peek() === null) void this.loadFirst();
    else if (this.next.peek() !== null) void this.more();
    this.lookSoon();
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
    const last = this.items.peek()?.at(-1);
    if (last !== undefined) this.old.mark(this.source.idOf(last), cursor);
    this.put(appendPage(this.state(), page, this.source.idOf));
  }

  /** A newer beginning of the list, soon; those who ask meanwhile get the same. */
  refreshSoon(limit: number): void {
    this.dueLimit = Math.max(this.dueLimit, Math.min(limit, MOST_AT_ONCE));
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
    const { turn } = this.old;
    let page = await this.loaded(null, limit);
    if (page === null) return;
    if (!this.reaches(page) && limit < this.source.pageSize) {
      page = await this.loaded(null, this.source.pageSize);
      if (page === null) return;
    }
    if (!this.mayShow()) page = await this.furtherThan(page);
    if (page === null) return;
    const { items, next, fresh } = mergeFirstPage(this.state(), page, this.source.idOf);
    if (this.mayShow() || this.reaches(page)) this.freshen(null, page, turn);
    else this.old.clear(); // too much is new: what is shown waits for whoever looks at that
    if (this.mayShow()) {
      this.put({ items, next });
      this.held.value = [];
      this.apart = null;
      this.lookSoon();
      return;
    }
    this.apart = this.reaches(page) ? null : page;
    if (this.apart === null) this.put({ items: items.slice(fresh.length), next });
    this.held.value = fresh;
    this.lookSoon();
  }

  /** What is shown stays right also where many are held back: down to it, within reason. */
  private async furtherThan(page: Paged<T>): Promise<Paged<T> | null> {
    let all = page;
    while (!this.reaches(all) && all.items.length < MOST_REACHED) {
      const more = await this.loaded(all.next, MOST_AT_ONCE);
      if (more === null) return null;
      all = appendPage(all, more, this.source.idOf);
    }
    return all;
  }

  /** Rows that something has happened to, also such as only now belong into the list. */
  touch(ids: Iterable<string>): void {
    this.old.add(this.ids(), ids);
    this.lookSoon();
  }

  /** Once rows that may be old stay in sight they are loaded again. */
  lookSoon(): void {
    if (this.looking !== undefined || this.old.isEmpty) return;
    const pause = Math.max(STOOD_MS, this.lookedAt + LOOKS_APART_MS - performance.now());
    this.looking = setTimeout(() => {
      this.looking = undefined;
      void this.look();
    }, pause);
  }

  private async look(): Promise<void> {
    const range = this.inSight();
    const wanted = range === null ? null : this.old.within(this.ids(), range);
    if (wanted === null) return;
    this.lookedAt = performance.now();
    const { after, rows } = wanted;
    if (after === null) {
      this.refreshSoon(rows);
      return;
    }
    const { turn } = this.old;
    const page = await this.loaded(after.cursor, Math.min(rows, MOST_AT_ONCE));
    if (page === null) return;
    this.freshen(after.id, page, turn);
    this.put(mergePage(this.state(), after.id, page, this.source.idOf));
    this.lookSoon();
  }

  /** A page that was asked for at `turn`, before it is put into the list. */
  private freshen(after: string | null, page: Paged<T>, turn: number): void {
    const last = page.items.at(-1);
    const end =
      page.next === null || last === undefined
        ? null
        : { id: this.source.idOf(last), cursor: page.next };
    this.old.remove(this.ids(), { after, end, turn });
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

  private ids(): string[] {
    return (this.items.peek() ?? []).map(this.source.idOf);
  }

  private state(): Paged<T> {
    return { items: this.items.peek() ?? [], next: this.next.peek() };
  }

  private put({ items, next }: Paged<T>): void {
    batch(() => {
      this.items.value = items;
      this.next.value = next;
    });
    this.old.cut(this.ids().at(-1));
  }

  /** Null where it was stopped, or has failed; then `error` says why. */
  private async loaded(cursor: string | null, limit: number): Promise<Paged<T> | null> {
    this.running ??= new AbortController();
    const { signal } = this.running;
    try {
      const page = await this.source.load(cursor, limit, signal);
      if (signal.aborted) return null;
      this.error.value = null;
      return page;
    } catch (error) {
      if (!signal.aborted) this.error.value = asApiError(error);
      return null;
    }
  }
}
