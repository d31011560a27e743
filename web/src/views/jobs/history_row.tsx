/** One job of the list: a link to it, and what can be done with it. */

import { useComputed } from "@preact/signals";
import { useState } from "preact/hooks";
import { post } from "../../api/client";
import { may } from "../../boot";
import type { Listing } from "../../live/listing";
import { progressOfJobs } from "../../live/progress";
import { href } from "../../router";
import { now } from "../../ui/clock";
import { count, duration, money, percent, plural, shortId } from "../../ui/format";
import { Icon, type IconName } from "../../ui/icons";
import { JobPill } from "../../ui/job_pill";
import { isImage } from "../../ui/output";
import { Bar, Button, Dialog, LinkButton, Pill, Time } from "../../ui/parts";
import { attempt, say } from "../../ui/toasts";
import { isNamed, jobName, stateWord } from "../../ui/words";
import { type Job, lookUp, ranFor } from "./history_list";

interface RowProps {
  job: Job;
  index: number;
  listing: Listing<Job>;
}

export function HistoryRow({ job, index, listing }: RowProps) {
  const name = jobName(job);
  const { actual } = job.cost;
  return (
    <div class="history-row" data-row={index} data-testid={`job-${job.id}`}>
      <Cover job={job} />
      <div class="history-name">
        <a class="history-link" href={href(["jobs", job.id])}>
          {name}
        </a>
        <span class="history-about soft small">{about(job)}</span>
      </div>
      <div class="history-state">
        <State job={job} name={name} />
      </div>
      <span class="history-when soft">
        <Time at={job.timing.submitted_at} />
      </span>
      <Took job={job} />
      <span class="history-worker soft">{job.worker_id ?? ""}</span>
      <span class="history-cost number soft">
        {actual === null || actual === 0 ? "" : money(actual)}
      </span>
      <div class="history-acts">
        <Acts job={job} name={name} listing={listing} />
      </div>
    </div>
  );
}

function Cover({ job }: { job: Job }) {
  const cover = job.cover ?? null;
  const url = cover === null ? null : (cover.thumbnail ?? imageUrl(cover));
  return (
    <span class="history-cover">
      {url === null ? (
        <span class="thumb sign">
          <Icon name={signOf(job)} size={22} />
        </span>
      ) : (
        <img class="thumb" src={url} alt="" loading="lazy" decoding="async" />
      )}
      {(job.outputs ?? 0) > 1 && (
        <span class="history-files" title={plural(job.outputs ?? 0, "file")}>
          {count(job.outputs ?? 0)}
        </span>
      )}
    </span>
  );
}

/** While it runs it goes on with its progress. */
function Took({ job }: { job: Job }) {
  const heard = useComputed(() => progressOfJobs.value.get(job.id)?.at ?? 0);
  const seconds = ranFor(job, Math.max(now.value, job.status === "processing" ? heard.value : 0));
  return <span class="history-took number soft">{seconds === null ? "" : duration(seconds)}</span>;
}

function imageUrl(cover: NonNullable<Job["cover"]>): string | null {
  return isImage(cover.content_type) ? cover.url : null;
}

function signOf(job: Job): IconName {
  if (job.status === "queued") return "clock";
  if (job.status === "processing") return "play";
  if (job.status === "failed") return "warning";
  if (job.status === "cancelled") return "close";
  const type = job.cover?.content_type ?? "";
  return type.startsWith("audio/") ? "music" : type.startsWith("video/") ? "film" : "file";
}

function about(job: Job): string {
  if (job.error !== null) return job.error.message;
  const files = job.outputs ?? 0;
  const parts = isNamed(job) ? [shortId(job.id)] : files === 0 ? [] : [plural(files, "file")];
  const { batch_index, retry_of, surface, workflow_id } = job.origin;
  if (job.title !== null && workflow_id !== null && workflow_id !== job.title) {
    parts.push(workflow_id);
  }
  if (batch_index !== null) parts.push(`batch, no. ${batch_index + 1}`);
  if (retry_of !== null) parts.push("run again");
  if (surface !== "v1" && surface !== "v2") parts.push(`by ${surface}`);
  return parts.join(" · ");
}

function State({ job, name }: { job: Job; name: string }) {
  if (job.status === "processing") return <Running job={job} name={name} />;
  return <JobPill job={job} />;
}

/** Only this is painted again when it moves on. */
function Running({ job, name }: { job: Job; name: string }) {
  const told = useComputed(() => progressOfJobs.value.get(job.id)?.progress);
  const share = Math.max(told.value ?? 0, job.progress.fraction);
  return (
    <div class="history-running">
      <Pill state="processing">
        {stateWord(job)} <span class="number">{percent(share)}</span>
      </Pill>
      <Bar value={share} label={`Progress of ${name}`} />
    </div>
  );
}

function Acts({ job, name, listing }: { job: Job; name: string; listing: Listing<Job> }) {
  const [isAsking, setAsking] = useState(false);
  const path = { execution_id: job.id };
  const cancel = async () => {
    setAsking(false);
    const done = await attempt(() =>
      post("/v2/workflows/executions/{execution_id}/cancel", { path }),
    );
    if (done !== null) await lookUp(listing, job.id);
  };
  const retry = async () => {
    const accepted = await attempt(() =>
      post("/v2/workflows/executions/{execution_id}/retry", { path, body: {} }),
    );
    if (accepted === null) return;
    say("It runs once more, as a new job.");
    listing.refreshSoon(10);
  };
  const isOpen = job.status === "queued" || job.status === "processing";
  const isLost = job.status === "failed" || job.status === "cancelled";
  return (
    <>
      {may("jobs:write") && isOpen && !job.cancel_requested && (
        <Button
          small
          look="quiet"
          icon="stop"
          label={`Cancel ${name}`}
          onClick={job.status === "queued" ? cancel : () => setAsking(true)}
        />
      )}
      {may("jobs:write") && isLost && (
        <Button small look="quiet" icon="retry" label={`Retry ${name}`} onClick={retry} />
      )}
      {may("jobs:write") && (
        <LinkButton
          small
          look="quiet"
          icon="edit"
          href={href(["run", "job", job.id])}
          label={`Run ${name} again with changes`}
        />
      )}
      {isAsking && (
        <Dialog title="Cancel this job?" close={() => setAsking(false)}>
          <p>
            {name} runs. What it has done so far is lost; files that it has made already are kept.
          </p>
          <div class="row">
            <Button look="danger" icon="stop" onClick={cancel}>
              Cancel the job
            </Button>
            <Button onClick={() => setAsking(false)}>Let it run</Button>
          </div>
        </Dialog>
      )}
    </>
  );
}
