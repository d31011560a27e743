/** All jobs; or, with an id in the URL, one of them. */

import type { ViewProps } from "../../views";
import { HistoryView } from "./history_view";
import { JobView } from "./job_view";

export default function JobsView({ parts, query }: ViewProps) {
  const id = parts[0];
  return id === undefined ? <HistoryView query={query} /> : <JobView id={id} query={query} />;
}
