/** Which outputs the gallery shows, by what its URL says. Pure. */

import { dayIn } from "../../ui/dates";

export const KINDS = [
  { id: "", name: "All" },
  { id: "image", name: "Images" },
  { id: "video", name: "Video" },
  { id: "audio", name: "Audio" },
  { id: "other", name: "Other" },
] as const;

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
    found[name] = (query.get(name) ?? "").replaceAll("\0", "").slice(0, 200);
  }
  if (!KINDS.some((each) => each.id === found.kind)) found.kind = "";
  return { ...found, from: dayIn(found.from), to: dayIn(found.to) };
}

export function isNarrowed(filter: OutputFilter): boolean {
  return Object.values(filter).some((each) => each !== "");
}

/** The server puts the newest so many into one ZIP file. */
export const MOST_IN_ZIP = 2_000;

/** Whether there are more than fit, as far as the list was loaded. */
export function isMoreThanZip(loaded: number, hasMore: boolean): boolean {
  return loaded > MOST_IN_ZIP || (hasMore && loaded >= MOST_IN_ZIP);
}
