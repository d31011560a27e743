/** The jobs of a batch: a signal each, changed by events; and the table that a grid makes. */

import { batch, type Signal, signal } from "@preact/signals";
import type { Schemas } from "../../api/client";
import type { LiveEvent } from "../../live/stream";
import { valueText } from "../../ui/values";

/** The description says only that parameters are an object. */
export type Member = Omit<Schemas["BatchExecution"], "parameters"> & {
  parameters: Record<string, unknown>;
};

type Event = Pick<LiveEvent, "type" | "execution_id" | "timestamp" | "data">;

export class MemberBook {
  /** In the order of the batch. */
  readonly list = signal<readonly Signal<Member>[]>([]);
  readonly #byIndex = new Map<number, Signal<Member>>();
  readonly #byJob = new Map<string, Signal<Member>>();
  /** Events since the load that is under way has begun; null: there is none. */
  #since: Event[] | null = null;

  begin(): void {
    this.#since = [];
  }

  load(members: readonly Member[]): void {
    batch(() => {
      for (const member of members) {
        const known = this.#byIndex.get(member.index);
        const kept = known ?? signal(member);
        if (known !== undefined && !isSame(known.peek(), member)) known.value = member;
        this.#byIndex.set(member.index, kept);
        if (member.execution_id !== null) this.#byJob.set(member.execution_id, kept);
      }
      if (this.#byIndex.size !== this.list.peek().length) {
        this.list.value = [...this.#byIndex]
          .sort(([one], [other]) => one - other)
          .map(([, member]) => member);
      }
    });
  }

  /** Call when all is loaded: what has happened meanwhile is put on top. */
  end(): void {
    const since = this.#since ?? [];
    this.#since = null;
    this.#apply(since);
  }

  take(events: readonly Event[]): void {
    this.#since?.push(...events);
    this.#apply(events);
  }

  has(job: string | null): boolean {
    return job !== null && this.#byJob.has(job);
  }

  get lastIndex(): number {
    return this.list.peek().at(-1)?.peek().index ?? -1;
  }

  #apply(events: readonly Event[]): void {
    batch(() => {
      for (const event of events) {
        const member =
          event.execution_id === null ? undefined : this.#byJob.get(event.execution_id);
        if (member === undefined) continue;
        const next = after(member.peek(), event);
        if (next !== member.peek()) member.value = next;
      }
    });
  }
}

const OVER: ReadonlySet<string | null> = new Set(["completed", "failed", "cancelled"]);

export function isOver(member: Member): boolean {
  return OVER.has(member.status);
}

/** What has ended does not begin again: such an event is an old one. */
export function after(member: Member, { type, timestamp, data }: Event): Member {
  if (isOver(member)) return member;
  switch (type) {
    case "execution.queued":
      return { ...member, status: "queued", progress: 0 };
    case "execution.started":
      return { ...member, status: "processing", started_at: timestamp };
    case "execution.progress": {
      const progress = typeof data.progress === "number" ? data.progress : member.progress;
      return { ...member, status: "processing", progress };
    }
    case "execution.completed":
    case "execution.cancelled":
    case "execution.failed":
      return {
        ...member,
        status: type.slice("execution.".length),
        progress: type === "execution.completed" ? 1 : member.progress,
        completed_at: timestamp,
        error: type === "execution.failed" ? errorOf(data.error) : null,
      };
    default:
      return member;
  }
}

function errorOf(error: unknown): Member["error"] {
  if (typeof error !== "object" || error === null) return null;
  const { category, code, message } = error as NonNullable<Member["error"]>;
  return { category, code, message };
}

function isSame(one: Member, other: Member): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

export interface Axis {
  target: string;
  values: readonly string[];
}

export interface Table<T> {
  rows: Axis;
  columns: Axis;
  /** By row and column; undefined where there is none. */
  cells: readonly (readonly (T | undefined)[])[];
}

/** Values that differ, by target, in the order in which they come. */
export function varying(members: readonly Member[]): Map<string, string[]> {
  const found = new Map<string, Set<string>>();
  for (const { parameters } of members) {
    for (const [target, value] of Object.entries(parameters)) {
      const values = found.get(target) ?? new Set();
      values.add(valueText(value));
      found.set(target, values);
    }
  }
  return new Map(
    [...found].filter(([, values]) => values.size > 1).map(([target, all]) => [target, [...all]]),
  );
}

/** Null unless exactly two things differ and no two jobs have the same of both. */
export function tableOf<T>(items: readonly T[], memberOf: (item: T) => Member): Table<T> | null {
  const [down, across, ...more] = [...varying(items.map(memberOf))];
  if (down === undefined || across === undefined || more.length > 0) return null;
  const rows = { target: down[0], values: down[1] };
  const columns = { target: across[0], values: across[1] };
  const rowOf = new Map(rows.values.map((value, at) => [value, at]));
  const columnOf = new Map(columns.values.map((value, at) => [value, at]));
  const cells: (T | undefined)[][] = rows.values.map(() => columns.values.map(() => undefined));
  for (const item of items) {
    const { parameters } = memberOf(item);
    const row = cells[rowOf.get(valueText(parameters[rows.target])) ?? -1];
    const column = columnOf.get(valueText(parameters[columns.target]));
    if (row === undefined || column === undefined || row[column] !== undefined) return null;
    row[column] = item;
  }
  return { rows, columns, cells };
}

/** `3.steps` as people know it, `KSampler: steps`, where the node's title is known. */
export function labelOf(target: string, titles: ReadonlyMap<string, string>): string {
  const at = target.lastIndexOf(".");
  const title = at < 0 ? undefined : titles.get(target.slice(0, at));
  return title === undefined ? target : `${title}: ${target.slice(at + 1)}`;
}
