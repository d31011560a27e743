/** What the job does now: where it waits, how far it is, what it looks like. */

import { useComputed } from "@preact/signals";
import { useEffect, useMemo, useState } from "preact/hooks";
import { may } from "../../boot";
import { href } from "../../router";
import { count, duration, money, percent, plural } from "../../ui/format";
import { isImage, isVideo, outputId, pictureOf } from "../../ui/output";
import { Bar, Notice, Time } from "../../ui/parts";
import { type Job, type JobData, type JobOutput, usePreview, useProgress } from "./job_data";
import { howFar, type NodeBook } from "./node_states";

export function JobNow({ job, data }: { job: Job; data: JobData }) {
  const progress = useProgress(job);
  const preview = usePreview(job, progress.preview);
  const cover = job.status === "completed" ? coverOf(job) : null;
  const hasPicture = preview !== null || cover !== null;
  return (
    <section class={hasPicture ? "job-now pictured card" : "job-now card"} aria-label="Now">
      <div class="job-now-text">
        {job.status === "queued" && <Waiting job={job} />}
        {job.status === "processing" && <Running job={job} data={data} progress={progress} />}
        {job.status === "completed" && <Ended job={job} word="Done" />}
        {job.status === "failed" && <Ended job={job} word="It failed" />}
        {job.status === "cancelled" && <Ended job={job} word="It was cancelled" />}
        <Attempts job={job} />
      </div>
      {preview !== null && (
        <figure class="job-picture" data-testid="preview">
          <img src={preview} alt="Preview of what is being made" />
        </figure>
      )}
      {cover !== null && <CoverLink job={job} output={cover} />}
    </section>
  );
}

function CoverLink({ job, output }: { job: Job; output: JobOutput }) {
  const url = pictureOf(output, 512);
  if (url === null) return null;
  const link = href(["gallery"], { execution_id: job.id, open: outputId(output) });
  return (
    <a class="job-picture" href={link}>
      <img src={url} alt={output.filename} />
    </a>
  );
}

function coverOf(job: Job): JobOutput | null {
  const shown = (job.result?.outputs ?? []).filter(
    (each) => each.gone_at === null && (isImage(each.content_type) || isVideo(each.content_type)),
  );
  const found = shown.find((each) => !each.temporary) ?? shown[0] ?? null;
  return found !== null && pictureOf(found, 512) !== null ? found : null;
}

function Waiting({ job }: { job: Job }) {
  const { queue, timing, reason } = job;
  const isTriedAgain = reason === "retrying";
  return (
    <>
      <h2>
        {isTriedAgain ? "It is tried again" : reason === "scheduled" ? "For later" : "In the queue"}
      </h2>
      <dl class="job-figures">
        {queue.position !== null && (
          <Figure name="Place" value={count(queue.position)} testId="queue-position" />
        )}
        {queue.predicted_wait !== null && (
          <Figure
            name="Starts in about"
            value={<Countdown job={job} seconds={queue.predicted_wait} end="any moment" />}
          />
        )}
        {timing.retry_at !== null && (
          <Figure name="Next attempt" value={<Time at={timing.retry_at} />} />
        )}
        {reason === "scheduled" && timing.not_before !== null && (
          <Figure name="Not before" value={<Time at={timing.not_before} />} />
        )}
        <Figure name="Takes about" value={duration(timing.estimated_duration)} />
        <Figure name="Priority" value={`${queue.priority} (${queue.queue_class})`} />
      </dl>
      {queue.waiting_for !== null && (
        <Notice>
          {queue.waiting_for} <FleetLink hint={queue.waiting_for} />
        </Notice>
      )}
    </>
  );
}

/** Where one can see, and do, what a hint is about: such hints name commands of a terminal. */
function FleetLink({ hint }: { hint: string }) {
  const isOfWorkers = /\bworkers?\b/i.test(hint);
  if (!may("fleet:read") || !(isOfWorkers || /\bqueue\b/i.test(hint))) return null;
  return <a href={href(["fleet"], isOfWorkers ? { tab: "workers" } : {})}>Queue & workers</a>;
}

function Figure({
  name,
  value,
  testId,
}: {
  name: string;
  value: preact.ComponentChildren;
  testId?: string;
}) {
  return (
    <div>
      <dt class="soft small">{name}</dt>
      <dd class="number" data-testid={testId}>
        {value}
      </dd>
    </div>
  );
}

interface RunningProps {
  job: Job;
  data: JobData;
  progress: ReturnType<typeof useProgress>;
}

function Running({ job, data, progress }: RunningProps) {
  const remaining = job.timing.estimated_remaining;
  return (
    <>
      <div class="job-line">
        <h2>
          {job.cancel_requested ? "Ending" : "Running"}{" "}
          <span class="number">{percent(progress.fraction)}</span>
        </h2>
        <span class="soft number">
          {count(progress.completedNodes)} of {plural(progress.totalNodes, "node")}
          {remaining !== null && (
            <>
              {" · "}
              <Countdown
                job={job}
                seconds={remaining}
                end="almost done"
                about="about"
                left="left"
              />
            </>
          )}
        </span>
      </div>
      <Bar value={progress.fraction} label="Progress of the job" />
      <RunningNodes data={data} current={progress.currentNode} />
    </>
  );
}

const MOST_BARS = 4;

function RunningNodes({ data, current }: { data: JobData; current: string | null }) {
  const { book } = data;
  const running = useComputed(() =>
    book.ids.value.filter((id) => book.stateOf(id).value.status === "running"),
  ).value;
  const ids = running.length > 0 || current === null ? running : [current];
  const titles = useMemo(
    () => new Map(data.form.data?.nodes.map((node) => [node.node_id, node.title])),
    [data.form.data],
  );
  return (
    <ul class="job-running">
      {ids.slice(0, MOST_BARS).map((id) => (
        <RunningNode key={id} id={id} title={titles.get(id) ?? book.typeOf(id) ?? id} book={book} />
      ))}
      {ids.length > MOST_BARS && <li class="soft">and {count(ids.length - MOST_BARS)} more</li>}
    </ul>
  );
}

function RunningNode({ id, title, book }: { id: string; title: string; book: NodeBook }) {
  const state = book.stateOf(id).value;
  return (
    <li>
      <div class="job-line">
        <span class="job-running-name">{title}</span>
        <span class="soft number">{howFar(state)}</span>
      </div>
      <Bar value={state.progress} label={`Progress of ${title}`} />
    </li>
  );
}

interface CountdownProps {
  job: Job;
  seconds: number;
  /** Said when the time is over. */
  end: string;
  about?: string;
  left?: string;
}

/** Goes on between two answers of the server. */
function Countdown({ job, seconds, end, about, left }: CountdownProps) {
  const since = useMemo(() => Date.now(), [job]);
  const [now, setNow] = useState(since);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  const rest = Math.round(seconds - Math.max(0, now - since) / 1000);
  if (rest <= 0) return <>{end}</>;
  return <>{[about, duration(rest).replace(".0", ""), left].filter(Boolean).join(" ")}</>;
}

function Ended({ job, word }: { job: Job; word: string }) {
  const { timing, progress, cost, result } = job;
  const outputs = result?.outputs.length ?? 0;
  return (
    <>
      <h2>{word}</h2>
      <dl class="job-figures">
        {timing.completed_at !== null && (
          <Figure name="Ended" value={<Time at={timing.completed_at} />} />
        )}
        {timing.started_at !== null && timing.completed_at !== null && (
          <Figure name="Took" value={between(timing.started_at, timing.completed_at)} />
        )}
        {timing.started_at !== null && (
          <Figure name="Waited" value={between(timing.submitted_at, timing.started_at)} />
        )}
        {timing.started_at !== null && (
          <Figure
            name="Nodes done"
            value={`${count(progress.completed_nodes)} of ${count(progress.total_nodes)}`}
          />
        )}
        <Figure name="Outputs" value={count(outputs)} />
        {cost.actual !== null && cost.actual > 0 && (
          <Figure name="Cost" value={money(cost.actual)} />
        )}
      </dl>
      {job.status === "completed" && outputs === 0 && (
        <p class="soft">It made no files: none of its nodes saves or shows something.</p>
      )}
    </>
  );
}

function between(from: string, to: string): string {
  return duration(Math.max(0, Date.parse(to) - Date.parse(from)) / 1000);
}

const RECOVERY: Record<string, string> = {
  another_worker: "tried again on another worker",
  less_memory: "tried again with less memory",
  more_time: "tried again with more time",
  mended_workflow: "tried again with a mended workflow",
  again: "tried again",
};

/** Only where there was more than one, or one that was lost. */
function Attempts({ job }: { job: Job }) {
  const attempts = job.attempts ?? [];
  const isTold = attempts.length > 1 || (attempts.length === 1 && job.status === "queued");
  if (!isTold) return null;
  return (
    <details class="job-attempts" open={job.status === "queued"}>
      <summary>{plural(attempts.length, "attempt")}</summary>
      <ol>
        {attempts.map((each) => (
          <li key={each.number}>
            <strong>{each.number}.</strong> on {each.worker_id}, <Time at={each.started_at} />:{" "}
            {each.error?.message ?? each.cause ?? each.status}
            {each.recovery !== null && (
              <span class="soft">
                {" "}
                Then {RECOVERY[each.recovery] ?? each.recovery}
                {each.retry_delay !== null &&
                  each.retry_delay > 0 &&
                  ` after ${duration(each.retry_delay)}`}
                .
              </span>
            )}
          </li>
        ))}
      </ol>
    </details>
  );
}
