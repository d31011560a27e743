/** What batches are called. */

import { shortId } from "../../ui/format";
import type { Batch } from "./batch_data";

export function nameOf(batch: Batch): string {
  return batch.name ?? `Batch ${shortId(batch.batch_id)}`;
}

export const KIND_WORD: Record<Batch["kind"], string> = {
  grid: "Grid",
  list: "List",
  variants: "Comparison",
  search: "Search",
};

export const STATUS_WORD: Record<Batch["status"], string> = {
  running: "running",
  completed: "done",
  failed: "done, some failed",
  cancelled: "cancelled",
};
