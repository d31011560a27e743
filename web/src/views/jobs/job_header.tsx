/** What the job is called, how it stands, and what can be done with it. */

import { address, post } from "../../api/client";
import { may } from "../../boot";
import { go, href } from "../../router";
import { copy } from "../../ui/clipboard";
import { shortId } from "../../ui/format";
import { JobPill } from "../../ui/job_pill";
import { Button, LinkButton, Time } from "../../ui/parts";
import { attempt, say } from "../../ui/toasts";
import { isNamed, jobName } from "../../ui/words";
import { isOpen, type Job } from "./job_data";
import { failsAgain } from "./job_prospect";

export function JobHeader({ job, reload }: { job: Job; reload: () => void }) {
  return (
    <header class="job-header">
      <div class="job-title">
        <h1>{jobName(job)}</h1>
        <span role="status">
          <JobPill job={job} />
        </span>
        <Button
          icon="link"
          look="quiet"
          small
          label="Copy link"
          onClick={() => copy(location.href)}
        />
      </div>
      <Acts job={job} reload={reload} />
      <About job={job} />
    </header>
  );
}

function About({ job }: { job: Job }) {
  const { timing, origin } = job;
  return (
    <p class="job-about soft">
      {isNamed(job) && (
        <span class="mono" title={job.id}>
          {shortId(job.id)}
        </span>
      )}
      <span>
        Submitted <Time at={timing.submitted_at} />
      </span>
      {job.worker_id !== null && <span>on {job.worker_id}</span>}
      {origin.batch_id !== null && (
        <a href={href(["batches", origin.batch_id])}>
          No. {(origin.batch_index ?? 0) + 1} of a batch
        </a>
      )}
      {origin.retry_of !== null && (
        <a href={href(["jobs", origin.retry_of])}>Runs {shortId(origin.retry_of)} once more</a>
      )}
    </p>
  );
}

function Acts({ job, reload }: { job: Job; reload: () => void }) {
  const path = { execution_id: job.id };
  const cancel = async () => {
    const done = await attempt(() =>
      post("/v2/workflows/executions/{execution_id}/cancel", { path }),
    );
    if (done !== null) reload();
  };
  const mayWrite = may("jobs:write");
  return (
    <div class="row push">
      {mayWrite && isOpen(job) && (
        <Button icon="stop" onClick={cancel} disabled={job.cancel_requested}>
          {job.cancel_requested ? "Cancelling…" : "Cancel"}
        </Button>
      )}
      {mayWrite && <RetryButton job={job} />}
      {mayWrite && (
        <LinkButton
          icon="edit"
          href={href(["run", "job", job.id])}
          look={failsAgain(job) ? "main" : "plain"}
        >
          Run again with changes
        </LinkButton>
      )}
      <Download job={job} />
    </div>
  );
}

function RetryButton({ job }: { job: Job }) {
  if (job.status !== "failed" && job.status !== "cancelled") return null;
  const retry = async () => {
    const accepted = await attempt(() =>
      post("/v2/workflows/executions/{execution_id}/retry", {
        path: { execution_id: job.id },
        body: {},
      }),
    );
    if (accepted === null) return;
    say("It runs once more, as a new job.");
    go(href(["jobs", accepted.id]));
  };
  return (
    <Button icon="retry" look={failsAgain(job) ? "plain" : "main"} onClick={retry}>
      Retry
    </Button>
  );
}

function Download({ job }: { job: Job }) {
  const there = (job.result?.outputs ?? []).filter((each) => each.gone_at === null);
  const kept = there.filter((each) => !each.temporary);
  const [only, ...others] = kept.length > 0 ? kept : there;
  if (only === undefined) return null;
  if (others.length === 0) {
    return (
      <LinkButton icon="download" href={only.url} download={only.filename}>
        Download
      </LinkButton>
    );
  }
  const query = { execution_id: job.id, ...(kept.length > 0 ? {} : { temporary: true }) };
  return (
    <LinkButton icon="download" href={address("/v1/outputs.zip", {}, query)} download>
      Download all
    </LinkButton>
  );
}
