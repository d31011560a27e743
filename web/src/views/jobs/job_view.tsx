/** One job: what it does now, its graph, its nodes, what it made, what happened. */

import "./job.css";
import "./job_graph.css";
import "./job_parts.css";
import { useEffect } from "preact/hooks";
import type { ApiError } from "../../api/client";
import { href, setQuery } from "../../router";
import { Empty, ErrorBox, LinkButton, Loading } from "../../ui/parts";
import { Tabs } from "../../ui/tabs";
import { jobName } from "../../ui/words";
import { isGone, isOpen, type Job, type JobData, useJob } from "./job_data";
import { JobError } from "./job_error";
import { JobGraph } from "./job_graph";
import { JobHeader } from "./job_header";
import { JobLog } from "./job_log";
import { JobNow } from "./job_now";
import { JobOutputs } from "./job_outputs";
import { NodeList } from "./node_list";
import { NodePanel } from "./node_panel";

interface JobViewProps {
  id: string;
  query: URLSearchParams;
}

/** Another job is another view: nothing of the one before is left over. */
export function JobView({ id, query }: JobViewProps) {
  return <OneJob key={id} id={id} query={query} />;
}

function OneJob({ id, query }: JobViewProps) {
  const data = useJob(id);
  const { data: job, error, reload } = data.status;
  useEffect(() => {
    if (job === null) return;
    const before = document.title;
    document.title = `${jobName(job)} · Comfyrail`;
    return () => {
      document.title = before;
    };
  }, [job === null]);
  if (error !== null && (job === null || isGone(data.status)))
    return <NoJob error={error} retry={reload} />;
  if (job === null) return <Loading lines={8} />;
  return (
    <>
      <JobHeader job={job} reload={reload} />
      {error && <ErrorBox error={error} retry={reload} />}
      <JobNow job={job} data={data} />
      {job.error !== null && <JobError job={job} />}
      <Parts job={job} data={data} query={query} />
    </>
  );
}

function NoJob({ error, retry }: { error: ApiError; retry: () => void }) {
  if (error.status !== 404) {
    return (
      <>
        <h1>Job</h1>
        <ErrorBox error={error} retry={retry} />
      </>
    );
  }
  return (
    <>
      <h1>Job</h1>
      <Empty title="There is no such job">
        <p>The link may be cut off, or the job is of another account.</p>
        <LinkButton href={href(["jobs"])} icon="list">
          All jobs
        </LinkButton>
      </Empty>
    </>
  );
}

const TABS = ["graph", "nodes", "outputs", "log"] as const;
type TabId = (typeof TABS)[number];

function Parts({ job, data, query }: { job: Job; data: JobData; query: URLSearchParams }) {
  const asked = TABS.find((each) => each === query.get("tab"));
  const outputs = job.result?.outputs ?? [];
  const first: TabId = !isOpen(job) && outputs.length > 0 ? "outputs" : "graph";
  const tab = asked ?? first;
  useEffect(() => {
    // A job that ends does not turn the page, and a copied link shows the same.
    if (asked === undefined) setQuery({ tab: first });
  }, [asked]);
  const selected = query.get("node");
  const names: Record<TabId, string> = {
    graph: "Graph",
    nodes: "Nodes",
    outputs: "Outputs",
    log: "Log",
  };
  const counts: Partial<Record<TabId, number>> = {
    nodes: data.book.ids.value.length || job.progress.total_nodes,
    outputs: outputs.length,
  };
  return (
    <section class="job-parts stack" aria-label="Details">
      <Tabs
        label="Details of the job"
        current={tab}
        choose={(id) => setQuery({ tab: id })}
        tabs={TABS.map((id) => {
          const number = counts[id];
          return { id, name: names[id], ...(number === undefined ? {} : { count: number }) };
        })}
      >
        {(tab === "graph" || tab === "nodes") && (
          <div class={selected === null ? "job-beside" : "job-beside open"}>
            {tab === "graph" ? (
              <JobGraph data={data} outputs={outputs} selected={selected} />
            ) : (
              <NodeList data={data} selected={selected} />
            )}
            {selected !== null && (
              <NodePanel key={selected} id={selected} data={data} outputs={outputs} job={job} />
            )}
          </div>
        )}
        {tab === "outputs" && <JobOutputs job={job} outputs={outputs} form={data.form.data} />}
        {tab === "log" && <JobLog id={job.id} query={query} />}
      </Tabs>
    </section>
  );
}
