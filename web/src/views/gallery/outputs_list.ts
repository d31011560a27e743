/** The outputs that the gallery shows, by what its URL says. */

import { address, get, type Schemas } from "../../api/client";
import type { Listing, Source } from "../../live/listing";
import { ENDS } from "../../live/progress";
import type { LiveEvent } from "../../live/stream";
import { dayBegins, dayEnds } from "../../ui/dates";
import type { OutputFilter } from "./outputs_filter";

export type Found = Schemas["FoundOutputBody"];

/** Content types that are none of the others. */
const OTHER = "text,application,model,font,chemical,message";
const PAGE_SIZE = 120;
/** A job has more than one file; what is missed is found by a longer look. */
const NEW_ONES = 24;

/** The filter as the server's search takes it. */
function searchOf({ from, to, kind, ...others }: OutputFilter) {
  return {
    ...others,
    kind: kind === "" ? null : [kind === "other" ? OTHER : kind],
    created_from: dayBegins(from),
    created_before: dayEnds(to),
  };
}

export function zipOf(filter: OutputFilter): string {
  return address("/v1/outputs.zip", undefined, searchOf(filter));
}

/** The server takes so many ids at once. */
export const MOST_CHOSEN = 200;

export function zipOfChosen(ids: Iterable<string>): string {
  return address("/v1/outputs.zip", undefined, { output_id: [...ids] });
}

export const idOf = (found: Found) => found.output.output_id;

export function outputsSource(filter: OutputFilter): Source<Found> {
  return {
    pageSize: PAGE_SIZE,
    idOf,
    load: async (cursor, limit, signal) => {
      const page = await get("/v1/outputs", {
        query: { ...searchOf(filter), limit, cursor },
        signal,
      });
      return { items: page.outputs, next: page.next_cursor };
    },
  };
}

export function takeEnds(listing: Listing<Found>, events: LiveEvent[]): void {
  if (events.some((each) => ENDS.has(each.type))) listing.refreshSoon(NEW_ONES);
}
