/** The jobs that a list shows, by what its URL says, and which of them an event concerns. */

import { get, type Schemas } from "../../api/client";
import type { Listing, Source } from "../../live/listing";
import { TURNS } from "../../live/progress";
import { asApiError } from "../../live/resource";
import type { LiveEvent } from "../../live/stream";
import { dayBegins, dayEnds } from "../../ui/dates";
import type { HistoryFilter } from "./history_filter";

export type Job = Schemas["V2Execution"];

const PAGE_SIZE = 100;
/** Jobs that are further down are looked up one by one, so many at most for one group of events. */
const MOST_SINGLE = 8;
const SPARE = 5;

export function historySource(filter: HistoryFilter): Source<Job> {
  const { from, to, status, ...others } = filter;
  return {
    pageSize: PAGE_SIZE,
    idOf: (job) => job.id,
    load: async (cursor, limit, signal) => {
      const page = await get("/v2/workflows/executions", {
        query: {
          ...others,
          status: status === "" ? null : [status],
          submitted_from: dayBegins(from),
          submitted_before: dayEnds(to),
          cover: true,
          limit,
          cursor,
        },
        signal,
      });
      return { items: page.executions, next: page.next_cursor };
    },
  };
}

const CONCERNED: ReadonlySet<string> = new Set(TURNS);

/** Near the top the beginning of the list is loaded again, only as far down as something changed. */
export function takeTurns(listing: Listing<Job>, events: LiveEvent[]): void {
  const turned = new Set<string>();
  for (const { type, execution_id: id } of events) {
    if (id !== null && CONCERNED.has(type)) turned.add(id);
  }
  if (turned.size === 0) return;
  const items = listing.items.peek() ?? [];
  const { deepest, beyond } = placesOf(items, turned, PAGE_SIZE - SPARE);
  const known = items.length === 0 ? 0 : turned.size;
  if (deepest >= 0 || beyond.length < turned.size) {
    listing.refreshSoon(deepest + 1 + known + SPARE);
  }
  for (const id of beyond.slice(0, MOST_SINGLE)) void lookUp(listing, id);
}

/** `deepest`: the last place among the first so many that one of them has; `beyond`: the others. */
export function placesOf(
  items: readonly { id: string }[],
  wanted: ReadonlySet<string>,
  first: number,
): { deepest: number; beyond: string[] } {
  let deepest = -1;
  const beyond: string[] = [];
  let left = wanted.size;
  for (const [at, { id }] of items.entries()) {
    if (left === 0) break;
    if (!wanted.has(id)) continue;
    left -= 1;
    if (at < first) deepest = at;
    else beyond.push(id);
  }
  return { deepest, beyond };
}

/** One job, with the picture that it has in the list. */
export async function lookUp(listing: Listing<Job>, id: string): Promise<void> {
  try {
    const job = await get("/v2/workflows/executions/{execution_id}", {
      path: { execution_id: id },
    });
    const old = listing.items.peek()?.find((each) => each.id === id);
    if (old === undefined) return;
    const outputs = job.result?.outputs ?? [];
    const shown = outputs.find((each) => each.content_type.startsWith("image/")) ?? outputs[0];
    listing.replace({
      ...job,
      attempts: null,
      result: null,
      outputs: outputs.length,
      cover:
        shown === undefined
          ? (old.cover ?? null)
          : {
              output_id: shown.id,
              content_type: shown.content_type,
              kind: shown.kind,
              url: shown.url,
              thumbnail: shown.variants.thumb_256 ?? null,
            },
    });
  } catch (error) {
    asApiError(error); // the next event, or the next look, brings it
  }
}

/** What people call it. */
export function nameOf(job: Job): string {
  return job.title ?? job.origin.workflow_id ?? `Job ${job.id.slice(-8)}`;
}

/** Seconds that it ran, or has run by now; null: not yet. */
export function ranFor(job: Job, now: number): number | null {
  const { started_at, completed_at } = job.timing;
  if (started_at === null) return null;
  const end = completed_at === null ? now : Date.parse(completed_at);
  return Math.max(0, (end - Date.parse(started_at)) / 1000);
}
