/** The outputs that the gallery shows, by what its URL says. */

import { address, get, type Schemas } from "../../api/client";
import type { Listing, Source } from "../../live/listing";
import { ENDS } from "../../live/progress";
import type { LiveEvent } from "../../live/stream";
import { dayBegins, dayEnds } from "../../ui/dates";

export type Found = Schemas["FoundOutputBody"];

export const KINDS = [
  { id: "", name: "All" },
  { id: "image", name: "Images" },
  { id: "video", name: "Video" },
  { id: "audio", name: "Audio" },
  { id: "other", name: "Other" },
] as const;

/** Content types that are none of the others. */
const OTHER = "text,application,model,font,chemical,message";
const PAGE_SIZE = 120;
/** A job has more than one file; what is missed is found by a longer look. */
const NEW_ONES = 24;

export interface OutputFilter {
  text: string;
  kind: string;
  workflow_id: string;
  from: string;
  to: string;
  execution_id: string;
  batch_id: string;
}

export const NO_FILTER: OutputFilter = {
  text: "",
  kind: "",
  workflow_id: "",
  from: "",
  to: "",
  execution_id: "",
  batch_id: "",
};

export function filterOf(query: URLSearchParams): OutputFilter {
  const found = { ...NO_FILTER };
  for (const name of Object.keys(found) as (keyof OutputFilter)[]) {
    found[name] = (query.get(name) ?? "").slice(0, 200);
  }
  if (!KINDS.some((each) => each.id === found.kind)) found.kind = "";
  return found;
}

export function isNarrowed(filter: OutputFilter): boolean {
  return Object.values(filter).some((each) => each !== "");
}

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

export const MOST_IN_ZIP = 2_000;
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
