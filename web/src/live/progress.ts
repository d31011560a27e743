/** How far the running jobs are, by the latest events: for every view that shows a job. */

import { signal } from "@preact/signals";
import { onEvents } from "./stream";

export interface JobProgress {
  progress: number;
  currentNode: string | null;
  completedNodes: number;
  totalNodes: number;
  /** How many preview pictures there were. */
  preview: number;
  at: number;
}

/** Jobs that have ended, or that nothing was heard of for long, are not kept. */
const MOST_KEPT = 500;

export const progressOfJobs = signal<ReadonlyMap<string, JobProgress>>(new Map());

onEvents((events) => {
  const next = new Map(progressOfJobs.peek());
  let changed = false;
  for (const { execution_id: id, type, data, timestamp } of events) {
    if (id === null) continue;
    if (type === "execution.progress") {
      next.delete(id); // to the end of the order: the oldest go first
      next.set(id, {
        progress: Number(data.progress ?? 0),
        currentNode: (data.current_node as string | null) ?? null,
        completedNodes: Number(data.completed_nodes ?? 0),
        totalNodes: Number(data.total_nodes ?? 0),
        preview: Number(data.preview ?? 0),
        at: Date.parse(timestamp),
      });
      changed = true;
    } else if (ENDS.has(type) || type === "execution.queued") {
      changed = next.delete(id) || changed;
    }
  }
  for (const id of next.keys()) {
    if (next.size <= MOST_KEPT) break;
    next.delete(id);
  }
  if (changed) progressOfJobs.value = next;
});

export const ENDS: ReadonlySet<string> = new Set([
  "execution.completed",
  "execution.failed",
  "execution.cancelled",
]);
/** What changes where a job stands: states, not steps. */
export const TURNS: readonly string[] = ["execution.queued", "execution.started", ...ENDS];
