/** What happened, where, and what can be done about it. */

import type { Schemas } from "../../api/client";
import { setQuery } from "../../router";
import { Icon } from "../../ui/icons";
import { Button, CopyButton } from "../../ui/parts";
import type { Job } from "./job_data";

/** What workers and the server may put into an error's details; nothing of it is sure. */
type Details = Record<string, unknown>;

export function JobError({ job }: { job: Job }) {
  if (job.error === null) return null;
  const { message, code, category } = job.error;
  const details = job.error.details as Details;
  const node = text(details.node_id);
  const advice = text(details.suggested_action);
  const worker = job.attempts?.at(-1)?.worker_id ?? job.worker_id;
  const hasDetails = Object.keys(details).length > 0;
  return (
    <section class="job-error" role="alert" aria-label="Error">
      <Icon name="warning" />
      <div class="stack">
        <p class="job-error-message">{message}</p>
        {advice !== null && (
          <p>
            <strong>What to do:</strong> {advice}
          </p>
        )}
        <p class="soft small">
          {code} · {category}
          {worker !== null && ` · on ${worker}`}
        </p>
        {node !== null && (
          <div>
            <Button small icon="search" onClick={() => setQuery({ tab: "graph", node })}>
              Show node {node}
            </Button>
          </div>
        )}
        {hasDetails && <DetailText error={job.error} />}
      </div>
    </section>
  );
}

function DetailText({ error }: { error: Schemas["ExecutionError"] }) {
  const written = JSON.stringify(error.details, null, 2).replaceAll("\\n", "\n");
  return (
    <details>
      <summary>Details</summary>
      <div class="job-detail-text">
        <pre>{written}</pre>
        <CopyButton text={() => JSON.stringify(error, null, 2)} label="Copy the error" />
      </div>
    </details>
  );
}

function text(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}
