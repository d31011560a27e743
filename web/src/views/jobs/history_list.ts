/** The jobs that a list shows, by what its URL says, and which of them an event concerns. */

import { get, type Schemas } from "../../api/client";
import type { Listing, Source } from "../../live/listing";
import { placeOf } from "../../live/merging";
import { TURNS } from "../../live/progress";
import { asApiError } from "../../live/resource";
import type { LiveEvent } from "../../live/stream";
import { dayBegins, dayEnds } from "../../ui/dates";
import type { HistoryFilter } from "./history_filter";

export type Job = Schemas["V2Execution"];

const PAGE_SIZE = 100;
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

/**
 * Near the top the beginning of the list is loaded again, only as far down as something changed;
 * further down what is in sight.
 */
export function takeTurns(listing: Listing<Job>, events: LiveEvent[]): void {
  const turned = new Set<string>();
  for (const { type, execution_id: id } of events) {
    if (id !== null && CONCERNED.has(type)) turned.add(id);
  }
  if (turned.size === 0) return;
  const rows = rowsConcerned(listing.items.peek() ?? [], turned);
  if (rows > 0) listing.refreshSoon(rows);
  listing.touch(turned);
}

/** How many rows from the top have all of them that are near it; 0: none is. */
export function rowsConcerned(
  items: readonly { id: string }[],
  turned: ReadonlySet<string>,
): number {
  let rows = 0;
  for (const id of turned) {
    const at = placeOf(items, id, (each) => each.id);
    // Those that are not there yet push the others down.
    if (at < PAGE_SIZE - SPARE) rows = Math.max(rows, at + 1 + turned.size + SPARE);
  }
  return Math.min(rows, PAGE_SIZE);
}

/** The first and the last row that the page has now. */
export function rowsInSight(): [number, number] | null {
  const rows = document.querySelectorAll<HTMLElement>(".history [data-row]");
  const first = rows[0]?.dataset.row;
  const last = rows[rows.length - 1]?.dataset.row;
  return first === undefined || last === undefined ? null : [Number(first), Number(last)];
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

/** Seconds that it ran, or has run by now; null: not yet. */
export function ranFor(job: Job, now: number): number | null {
  const { started_at, completed_at } = job.timing;
  if (started_at === null) return null;
  const end = completed_at === null ? now : Date.parse(completed_at);
  return Math.max(0, (end - Date.parse(started_at)) / 1000);
}
