/** What jobs and their states are called, the same in every view. Pure. */

import type { Schemas } from "../api/client";
import { shortId } from "./format";

type Job = Schemas["V2Execution"];

export const JOB_WORD: Record<Job["status"], string> = {
  queued: "waiting",
  processing: "running",
  completed: "done",
  failed: "failed",
  cancelled: "cancelled",
};

type Named = Pick<Job, "id" | "title"> & { origin: Pick<Job["origin"], "workflow_id"> };

/** Whether it is called by more than its id. */
export function isNamed({ title, origin }: Named): boolean {
  return title !== null || origin.workflow_id !== null;
}

export function jobName(job: Named): string {
  return job.title ?? job.origin.workflow_id ?? `Job ${shortId(job.id)}`;
}

type Standing = Pick<Job, "status" | "reason" | "cancel_requested">;

/** Its state in a word; of one that waits for something of its own, that. */
export function stateWord({ status, reason, cancel_requested }: Standing): string {
  const isOpen = status === "queued" || status === "processing";
  if (isOpen && cancel_requested) return "ending";
  return status === "queued" ? (reason ?? JOB_WORD.queued) : JOB_WORD[status];
}
