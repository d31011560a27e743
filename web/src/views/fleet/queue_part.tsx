/** The queue in the order in which it will run, with its classes. */

import { useComputed } from "@preact/signals";
import { useState } from "preact/hooks";
import { get, patch, post, type Schemas } from "../../api/client";
import { may } from "../../boot";
import { progressOfJobs, TURNS } from "../../live/progress";
import { useResource } from "../../live/resource";
import { href } from "../../router";
import { FormDialog } from "../../ui/dialogs";
import { count, duration, percent, shortId } from "../../ui/format";
import { JobPill } from "../../ui/job_pill";
import { Bar, Button, Empty, ErrorBox, Field, Loading, Notice, Time } from "../../ui/parts";
import { TableCard } from "../../ui/table_card";
import { attempt, say } from "../../ui/toasts";
import { jobName } from "../../ui/words";

const FRESH = { on: [...TURNS, "system.*"], every: 10 };

export function QueuePart() {
  const queue = useResource("queue", (signal) => get("/v1/queue", { signal }), FRESH);
  const jobs = useResource(
    may("jobs:read") ? "queue/executions" : null,
    (signal) => get("/v1/queue/executions", { query: { limit: 200 }, signal }),
    FRESH,
  );
  return (
    <div class="stack">
      {queue.error && <ErrorBox error={queue.error} retry={queue.reload} />}
      {queue.data === null ? (
        !queue.error && <Loading />
      ) : (
        <Figures queue={queue.data} reload={queue.reload} />
      )}
      {jobs.error && <ErrorBox error={jobs.error} retry={jobs.reload} />}
      {jobs.data !== null && (
        <OpenJobs
          jobs={jobs.data.executions}
          hasMore={jobs.data.next_cursor !== null}
          reload={jobs.reload}
        />
      )}
    </div>
  );
}

function Figures({ queue, reload }: { queue: Schemas["QueueBody"]; reload: () => void }) {
  const [isPausing, setPausing] = useState(false);
  const resume = async () => {
    if ((await attempt(() => post("/v1/queue/resume"))) !== null) reload();
  };
  return (
    <>
      {queue.paused && (
        <Notice look="warning">
          The queue is paused: no job starts. {queue.reason && `Reason: ${queue.reason}. `}
          {queue.paused_at && (
            <>
              Since <Time at={queue.paused_at} />.
            </>
          )}
        </Notice>
      )}
      <div class="fleet-figures">
        <Figure name="Running" value={count(queue.processing)} />
        <Figure name="Waiting" value={count(queue.queued)} />
        <Figure name="For later" value={count(queue.scheduled)} />
        <Figure name="Late" value={count(queue.late)} isBad={queue.late > 0} />
        {may("fleet:write") && (
          <div class="fleet-act">
            {queue.paused ? (
              <Button icon="play" look="main" onClick={resume}>
                Resume the queue
              </Button>
            ) : (
              <Button icon="pause" onClick={() => setPausing(true)}>
                Pause the queue
              </Button>
            )}
          </div>
        )}
      </div>
      <TableCard label="The queue by class">
        <table>
          <caption class="hidden">The queue by class</caption>
          <thead>
            <tr>
              <th scope="col">Class</th>
              <th scope="col">Waiting</th>
              <th scope="col">Work waiting</th>
              <th scope="col">Should start within</th>
              <th scope="col">Waited (median / 95%)</th>
              <th scope="col">On time</th>
            </tr>
          </thead>
          <tbody>
            {queue.classes.map((each) => (
              <tr key={each.queue_class}>
                <th scope="row">{each.queue_class}</th>
                <td class="number">{count(each.queued)}</td>
                <td class="number">{duration(each.expected_seconds)}</td>
                <td class="number">{duration(each.target_seconds)}</td>
                <td class="number">
                  {each.wait_p50 === null || each.wait_p95 === null
                    ? "–"
                    : `${duration(each.wait_p50)} / ${duration(each.wait_p95)}`}
                </td>
                <td class="number">
                  {each.started === 0 ? "–" : percent(1 - each.targets_missed / each.started)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </TableCard>
      {isPausing && <PauseDialog close={() => setPausing(false)} done={reload} />}
    </>
  );
}

export function Figure({ name, value, isBad }: { name: string; value: string; isBad?: boolean }) {
  return (
    <div class="figure">
      <span class="soft small">{name}</span>
      <strong class={isBad ? "number bad" : "number"}>{value}</strong>
    </div>
  );
}

function PauseDialog({ close, done }: { close: () => void; done: () => void }) {
  const [reason, setReason] = useState("");
  const pause = async () => {
    const body = reason.trim() === "" ? { reason: null } : { reason: reason.trim() };
    if ((await attempt(() => post("/v1/queue/pause", { body }))) === null) return;
    close();
    done();
  };
  return (
    <FormDialog title="Pause the queue" close={close} act="Pause" icon="pause" submit={pause}>
      <p>Jobs that run go on. No other job starts, anybody's, until the queue is resumed.</p>
      <Field label="Reason" hint="Whoever waits is told.">
        {(attributes) => (
          <input
            {...attributes}
            value={reason}
            maxLength={200}
            onInput={(event) => setReason(event.currentTarget.value)}
          />
        )}
      </Field>
    </FormDialog>
  );
}

type OpenJob = Schemas["V2Execution"];

function OpenJobs({
  jobs,
  hasMore,
  reload,
}: {
  jobs: OpenJob[];
  hasMore: boolean;
  reload: () => void;
}) {
  if (jobs.length === 0) {
    return (
      <Empty title="Nothing runs or waits">
        <p>
          Jobs of yours show up here in the order in which they run. <a href="#/">Run a workflow</a>
        </p>
      </Empty>
    );
  }
  return (
    <TableCard label="Your open jobs">
      <table>
        <caption class="hidden">Your open jobs in the order in which they run</caption>
        <thead>
          <tr>
            <th scope="col">Place</th>
            <th scope="col">Job</th>
            <th scope="col">State</th>
            <th scope="col">Submitted</th>
            <th scope="col">Priority</th>
            <th scope="col">
              <span class="hidden">Acts</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {jobs.map((job) => (
            <OpenJobRow key={job.id} job={job} reload={reload} />
          ))}
        </tbody>
      </table>
      {hasMore && (
        <p class="panel soft">
          Only the first 200 are shown.{" "}
          <a href={href(["jobs"], { status: "queued" })}>All that wait</a>
        </p>
      )}
    </TableCard>
  );
}

function OpenJobRow({ job, reload }: { job: OpenJob; reload: () => void }) {
  const isRunning = job.status === "processing";
  const cancel = async () => {
    const done = await attempt(() =>
      post("/v2/workflows/executions/{execution_id}/cancel", { path: { execution_id: job.id } }),
    );
    if (done !== null) reload();
  };
  const first = async () => {
    const done = await attempt(() =>
      patch("/v2/workflows/executions/{execution_id}", {
        path: { execution_id: job.id },
        body: { priority: 10 },
      }),
    );
    if (done === null) return;
    say("It has the highest priority now.");
    reload();
  };
  return (
    <tr>
      <td class="number">{isRunning ? "now" : (job.queue.position ?? "–")}</td>
      <td>
        <a href={href(["jobs", job.id])}>{jobName(job)}</a>
      </td>
      <td>
        {isRunning ? (
          <RunningState job={job} />
        ) : (
          <>
            <JobPill job={job} />{" "}
            <span class="small soft">
              {job.queue.waiting_for ??
                (job.queue.predicted_wait === null
                  ? ""
                  : `starts in about ${duration(job.queue.predicted_wait)}`)}
            </span>
          </>
        )}
      </td>
      <td>
        <Time at={job.timing.submitted_at} />
      </td>
      <td class="number">{job.queue.priority}</td>
      <td>
        {may("jobs:write") && (
          <div class="row fleet-row-acts">
            {!isRunning && job.queue.priority < 10 && (
              <Button small look="quiet" onClick={first}>
                Run sooner
              </Button>
            )}
            <Button
              small
              look="quiet"
              icon="close"
              label={`Cancel job ${shortId(job.id)}`}
              onClick={cancel}
            />
          </div>
        )}
      </td>
    </tr>
  );
}

/** Only this is painted again when the job moves on. */
function RunningState({ job }: { job: OpenJob }) {
  const told = useComputed(() => progressOfJobs.value.get(job.id)?.progress);
  const progress = told.value ?? job.progress.fraction;
  return (
    <div class="fleet-running">
      <Bar value={progress} label={`Progress of job ${shortId(job.id)}`} />
      <span class="small soft">
        {percent(progress)} on {job.worker_id}
      </span>
    </div>
  );
}
