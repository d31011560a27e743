/** Whether running a job once more may help. Pure. */

import type { Job } from "./job_data";

/** What the server's advice says where what a node is given is at fault. */
const ALWAYS = /\bevery time\b/;

type Ended = Pick<Job, "status" | "error"> & { retries: Pick<Job["retries"], "used" | "max"> };

/**
 * Whether it fails again when it is run as it is: the server says so, or has not tried it again
 * though it might have.
 */
export function failsAgain({ status, error, retries }: Ended): boolean {
  if (status !== "failed" || error === null) return false;
  const { category, retry_after } = error;
  if (retry_after !== null || category === "system" || category === "timeout") return false;
  const { suggested_action: advice } = error.details as Record<string, unknown>;
  const isAlways = typeof advice === "string" && ALWAYS.test(advice);
  return isAlways || category === "validation" || retries.used < retries.max;
}
