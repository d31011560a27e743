/** The start: choose a workflow, out of the library, the examples, a file, or an earlier job. */

import "./run.css";
import { useRef, useState } from "preact/hooks";
import { get, type Schemas } from "../../api/client";
import { may } from "../../boot";
import { progressOfJobs, TURNS } from "../../live/progress";
import { useResource } from "../../live/resource";
import { href } from "../../router";
import { percent } from "../../ui/format";
import { Icon } from "../../ui/icons";
import { JobPill } from "../../ui/job_pill";
import { Bar, Button, ErrorBox, Time } from "../../ui/parts";
import { jobName } from "../../ui/words";
import { ACCEPTED, openFile } from "./drop";
import { EXAMPLES, type Example } from "./examples";
import { FirstRun } from "./first_run";

/** From so many on there is a search. */
const MANY = 8;

export default function StartView() {
  return (
    <>
      <header>
        <h1>Run a workflow</h1>
      </header>
      <FirstRun />
      <DropZone />
      {may("library:read") && <Library />}
      <Examples />
      {may("jobs:read") && <LatestJobs />}
    </>
  );
}

function DropZone() {
  const chooser = useRef<HTMLInputElement>(null);
  return (
    <section class="run-drop" aria-label="Open a file">
      <Icon name="upload" size={26} />
      <p>
        <strong>Drop a workflow here</strong>
        <br />
        <span class="soft">
          a JSON file, or a picture (PNG, WebP) that was made with one; or paste it
        </span>
      </p>
      <Button look="main" onClick={() => chooser.current?.click()}>
        Choose a file
      </Button>
      <input
        ref={chooser}
        class="hidden"
        type="file"
        tabIndex={-1}
        aria-label="A workflow file"
        accept={ACCEPTED}
        onChange={(event) => void openFile(event.currentTarget.files?.[0])}
      />
    </section>
  );
}

function Library() {
  const [wanted, setWanted] = useState("");
  const list = useResource("library", (signal) =>
    get("/v1/workflows", { query: { limit: 500 }, signal }),
  );
  const all = list.data?.workflows ?? [];
  const words = wanted.toLowerCase();
  const shown = all.filter((each) =>
    `${each.name} ${each.description}`.toLowerCase().includes(words),
  );
  if (list.error) return <ErrorBox error={list.error} retry={list.reload} />;
  if (all.length === 0) return null;
  return (
    <section class="stack" aria-label="Library">
      <div class="row">
        <h2>Library</h2>
        {all.length > MANY && (
          <input
            class="input run-search push"
            type="search"
            placeholder="Search"
            aria-label="Search the library"
            value={wanted}
            onInput={(event) => setWanted(event.currentTarget.value)}
          />
        )}
      </div>
      <ul class="run-cards">
        {shown.map((each) => (
          <WorkflowCard key={each.name} workflow={each} />
        ))}
      </ul>
      {shown.length === 0 && <p class="soft">No workflow of the library has “{wanted}” in it.</p>}
    </section>
  );
}

function WorkflowCard({ workflow }: { workflow: Schemas["WorkflowSummary"] }) {
  return (
    <li>
      <a class="card run-card" href={href(["run", "library", workflow.name])}>
        {workflow.preview === null ? (
          <span class="run-no-picture">
            <Icon name="images" size={30} />
          </span>
        ) : (
          <img src={workflow.preview} alt="" loading="lazy" />
        )}
        <span class="run-card-text">
          <strong>{workflow.name}</strong>
          <span class="soft small">{workflow.description || `Version ${workflow.version}`}</span>
        </span>
      </a>
    </li>
  );
}

function Examples() {
  return (
    <section class="stack" aria-label="Examples">
      <h2>
        Examples <span class="soft small">need no GPU and no model</span>
      </h2>
      <ul class="run-cards">
        {EXAMPLES.map((each) => (
          <ExampleCard key={each.name} example={each} />
        ))}
      </ul>
    </section>
  );
}

function ExampleCard({ example }: { example: Example }) {
  const picture = useResource(`example/${example.name}`, () => example.preview());
  return (
    <li>
      <a class="card run-card" href={href(["run", "example", example.name])}>
        {picture.data === null ? (
          <span class="run-no-picture" />
        ) : (
          <img src={picture.data} alt="" loading="lazy" />
        )}
        <span class="run-card-text">
          <strong>{example.title}</strong>
          <span class="soft small">{example.description}</span>
        </span>
      </a>
    </li>
  );
}

function LatestJobs() {
  const list = useResource(
    "latest",
    (signal) => get("/v2/workflows/executions", { query: { limit: 6, cover: true }, signal }),
    { on: TURNS },
  );
  const jobs = list.data?.executions ?? [];
  if (jobs.length === 0) return null;
  return (
    <section class="stack" aria-label="Latest jobs">
      <div class="row">
        <h2>Latest jobs</h2>
        <a class="push" href="#/jobs">
          All jobs
        </a>
      </div>
      <ul class="run-latest">
        {jobs.map((each) => (
          <JobCard key={each.id} job={each} />
        ))}
      </ul>
    </section>
  );
}

function JobCard({ job }: { job: Schemas["V2Execution"] }) {
  const progress = progressOfJobs.value.get(job.id)?.progress ?? job.progress.fraction;
  const name = jobName(job);
  const picture =
    job.cover?.thumbnail ?? (job.cover?.content_type?.startsWith("image/") ? job.cover.url : null);
  return (
    <li>
      <a class="card run-card" href={href(["jobs", job.id])}>
        {picture ? (
          <img src={picture} alt="" loading="lazy" />
        ) : (
          <span class="run-no-picture">
            <Icon name={job.status === "failed" ? "warning" : "clock"} size={26} />
          </span>
        )}
        <span class="run-card-text">
          <strong>{name}</strong>
          {job.status === "processing" ? (
            <>
              <Bar value={progress} label={`Progress of ${name}`} />
              <span class="soft small number">{percent(progress)}</span>
            </>
          ) : (
            <span class="row">
              <JobPill job={job} />
              <span class="soft small">
                <Time at={job.timing.submitted_at} />
              </span>
            </span>
          )}
        </span>
      </a>
    </li>
  );
}
