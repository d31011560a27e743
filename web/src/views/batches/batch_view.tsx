/** One batch: how far it is, and all its jobs side by side. */

import { useEffect, useState } from "preact/hooks";
import { type ApiError, address, post } from "../../api/client";
import { may } from "../../boot";
import type { Resource } from "../../live/resource";
import { href, setQuery } from "../../router";
import { copy } from "../../ui/clipboard";
import { count, duration, money, percent, plural } from "../../ui/format";
import {
  Bar,
  Button,
  Dialog,
  Empty,
  ErrorBox,
  LinkButton,
  Loading,
  Notice,
  Pill,
  Time,
} from "../../ui/parts";
import { attempt } from "../../ui/toasts";
import { valueText } from "../../ui/values";
import { JOB_WORD } from "../../ui/words";
import { type Batch, useBatch } from "./batch_data";
import { MemberGrid } from "./member_grid";
import { KIND_WORD, nameOf, STATUS_WORD } from "./words";

export function BatchView({ id, query }: { id: string; query: URLSearchParams }) {
  const resource = useBatch(id);
  const { data: batch, error, reload } = resource;
  useEffect(() => {
    if (batch === null) return;
    const before = document.title;
    document.title = `${nameOf(batch)} · Comfyrail`;
    return () => {
      document.title = before;
    };
  }, [batch === null]);
  if (error !== null && (batch === null || error.status === 404)) {
    return <NoBatch error={error} retry={reload} />;
  }
  if (batch === null) return <Loading lines={8} />;
  return (
    <>
      <BatchHeader resource={resource} batch={batch} />
      {error && <ErrorBox error={error} retry={reload} />}
      <Progress batch={batch} />
      {batch.best !== null && <Best batch={batch} best={batch.best} />}
      {batch.counts.awaiting_score > 0 && (
        <Notice>
          {plural(batch.counts.awaiting_score, "trial waits", "trials wait")} for a score. Give each
          a number below; the search goes on with what you liked{" "}
          {batch.goal === "minimize" ? "(smaller is better)" : "(larger is better)"}.
        </Notice>
      )}
      {batch.warnings.length > 0 && (
        <Notice look="warning">
          <ul>
            {batch.warnings.map((each) => (
              <li key={each.index}>
                No. {each.index + 1}: {each.message}
              </li>
            ))}
          </ul>
        </Notice>
      )}
      <MemberGrid batch={batch} update={resource.set} query={query} />
    </>
  );
}

function NoBatch({ error, retry }: { error: ApiError; retry: () => void }) {
  return (
    <>
      <h1>Batch</h1>
      {error.status === 404 ? (
        <Empty title="There is no such batch">
          <p>The link may be cut off, or the batch is of another account.</p>
          <LinkButton href={href(["batches"])} icon="grid">
            All batches
          </LinkButton>
        </Empty>
      ) : (
        <ErrorBox error={error} retry={retry} />
      )}
    </>
  );
}

function BatchHeader({ resource, batch }: { resource: Resource<Batch>; batch: Batch }) {
  const [isAsking, setAsking] = useState(false);
  const cancel = async () => {
    const path = { batch_id: batch.batch_id };
    const done = await attempt(() => post("/v1/batches/{batch_id}/cancel", { path }));
    setAsking(false);
    if (done !== null) resource.set(done);
  };
  const isRunning = batch.status === "running";
  const zip = address("/v1/outputs.zip", {}, { batch_id: batch.batch_id });
  return (
    <header>
      <div class="batch-title">
        <h1>{nameOf(batch)}</h1>
        <span role="status">
          <Pill state={batch.status}>
            {isRunning && batch.cancelled_at !== null ? "ending" : STATUS_WORD[batch.status]}
          </Pill>
        </span>
        <Button
          icon="link"
          look="quiet"
          small
          label="Copy link"
          onClick={() => copy(location.href)}
        />
      </div>
      <div class="row push">
        {isRunning && may("jobs:write") && batch.cancelled_at === null && (
          <Button icon="stop" onClick={() => setAsking(true)}>
            Cancel
          </Button>
        )}
        {batch.counts.completed > 0 && (
          <LinkButton icon="download" href={zip} download>
            Download all
          </LinkButton>
        )}
        <LinkButton icon="images" href={href(["gallery"], { batch_id: batch.batch_id })}>
          In the gallery
        </LinkButton>
      </div>
      <p class="batch-about soft">
        <span>{KIND_WORD[batch.kind]}</span>
        <span>{plural(batch.jobs, "job")}</span>
        <span>
          Submitted <Time at={batch.submitted_at} />
        </span>
        {batch.completed_at !== null && batch.started_at !== null && (
          <span>took {duration(secondsOf(batch.started_at, batch.completed_at))}</span>
        )}
        {batch.cost !== null && batch.cost > 0 && <span>cost {money(batch.cost)}</span>}
        {batch.stop_on_error && <span>stops at the first failure</span>}
      </p>
      {isAsking && (
        <Dialog title="Cancel this batch?" close={() => setAsking(false)}>
          <p>
            Jobs that wait are cancelled at once, those that run as soon as their workers have
            stopped. What is done stays.
          </p>
          <div class="row">
            <Button look="danger" icon="stop" onClick={cancel}>
              Cancel the batch
            </Button>
            <Button onClick={() => setAsking(false)}>Let it run</Button>
          </div>
        </Dialog>
      )}
    </header>
  );
}

function secondsOf(from: string, to: string): number {
  return (Date.parse(to) - Date.parse(from)) / 1000;
}

const STATES = ["completed", "failed", "cancelled", "processing", "queued"] as const;

function Progress({ batch }: { batch: Batch }) {
  const { counts } = batch;
  return (
    <section class="batch-state card" aria-label="Progress">
      <div class="batch-line">
        <span class="batch-figures">
          {STATES.filter((state) => counts[state] > 0).map((state) => (
            <a
              key={state}
              href={href(["jobs"], { batch_id: batch.batch_id, status: state })}
              title={`Show the jobs that are ${JOB_WORD[state]} as a list`}
            >
              <strong class="number">{count(counts[state])}</strong> {JOB_WORD[state]}
            </a>
          ))}
          {counts.unmade > 0 && (
            <span>
              <strong class="number">{count(counts.unmade)}</strong> could not be made
            </span>
          )}
        </span>
        <span class="soft number">
          {percent(batch.progress)}
          {batch.estimated_remaining !== null &&
            ` · about ${duration(Math.max(1, Math.round(batch.estimated_remaining)))} left`}
        </span>
      </div>
      <Bar value={batch.progress} label="Progress of the batch" />
      {batch.stopped_at !== null && (
        <p class="soft">
          A job failed <Time at={batch.stopped_at} />: no further one is started.
        </p>
      )}
    </section>
  );
}

function Best({ batch, best }: { batch: Batch; best: NonNullable<Batch["best"]> }) {
  const parameters = Object.entries(best.parameters as Record<string, unknown>);
  return (
    <section class="batch-best card" aria-label="Best trial">
      <div>
        <h2>Best so far: {best.score}</h2>
        <p class="soft small">
          {batch.goal === "minimize" ? "Smaller is better" : "Larger is better"}
        </p>
      </div>
      <dl class="batch-values">
        {parameters.map(([target, value]) => (
          <div key={target}>
            <dt>{target}</dt>
            <dd>{valueText(value)}</dd>
          </div>
        ))}
      </dl>
      <div class="row">
        {best.execution_id !== null && (
          <LinkButton small href={href(["jobs", best.execution_id])}>
            Trial {best.index + 1}
          </LinkButton>
        )}
        {best.execution_id !== null && may("jobs:write") && (
          <LinkButton small icon="edit" href={href(["run", "job", best.execution_id])}>
            Run it with changes
          </LinkButton>
        )}
        <Button small look="quiet" onClick={() => setQuery({ sort: "score" })}>
          Best first
        </Button>
      </div>
    </section>
  );
}
