/** Which jobs a list shows, by what its URL says. Pure. */

import { dayIn } from "../../ui/dates";

export const STATES = [
  { id: "", name: "All" },
  { id: "queued,processing", name: "Open" },
  { id: "queued", name: "Waiting" },
  { id: "processing", name: "Running" },
  { id: "completed", name: "Done" },
  { id: "failed", name: "Failed" },
  { id: "cancelled", name: "Cancelled" },
] as const;

export interface HistoryFilter {
  status: string;
  text: string;
  workflow_id: string;
  from: string;
  to: string;
  batch_id: string;
}

const LONGEST_TEXT = 300;
const LONGEST_NAME = 200;
const LONGEST_ID = 64;

/** What the server would refuse, in a link, is no reason to show an error: it is left out. */
export function filterOf(query: URLSearchParams): HistoryFilter {
  const word = (name: string, longest: number) => {
    const found = query.get(name) ?? "";
    return found.length > longest ? "" : found;
  };
  const wanted = new Set((query.get("status") ?? "").split(","));
  return {
    status: KNOWN.filter((each) => wanted.has(each)).join(","),
    text: (query.get("text") ?? "").replaceAll("\0", "").slice(0, LONGEST_TEXT),
    workflow_id: word("workflow_id", LONGEST_NAME),
    from: dayIn(query.get("from")),
    to: dayIn(query.get("to")),
    batch_id: word("batch_id", LONGEST_ID),
  };
}

/** As the chips have them, where several are wanted. */
const KNOWN: readonly string[] = ["queued", "processing", "completed", "failed", "cancelled"];

export function isNarrowed(filter: HistoryFilter): boolean {
  return Object.values(filter).some((each) => each !== "");
}
