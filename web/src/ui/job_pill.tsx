/** The state of a job in its word and colour. */

import type { Schemas } from "../api/client";
import { Pill } from "./parts";
import { stateWord } from "./words";

type Standing = Pick<Schemas["V2Execution"], "status" | "reason" | "cancel_requested">;

export function JobPill({ job }: { job: Standing }) {
  return <Pill state={job.reason === "retrying" ? "retrying" : job.status}>{stateWord(job)}</Pill>;
}
