/** Each worker: what it runs, what it has in memory, how it is; and how to add one. */

import { useComputed } from "@preact/signals";
import { useState } from "preact/hooks";
import { get, post, remove, type Schemas } from "../../api/client";
import { may } from "../../boot";
import { progressOfJobs, TURNS } from "../../live/progress";
import { useResource } from "../../live/resource";
import { href, setQuery } from "../../router";
import { ConfirmDialog } from "../../ui/dialogs";
import { bytes, count, percent, plural, shortId } from "../../ui/format";
import { Bar, Button, Dialog, Empty, ErrorBox, Loading, Notice, Pill, Time } from "../../ui/parts";
import { attempt, say } from "../../ui/toasts";
import { AddWorker } from "./add_worker";
import { Figure } from "./queue_part";

const FRESH = { on: [...TURNS, "worker.*"], every: 5 };
type Worker = Schemas["WorkerBody"];

export function WorkersPart({ open }: { open: string | null }) {
  const fleet = useResource("fleet", (signal) => get("/v1/fleet", { signal }), FRESH);
  const workers = useResource("workers", (signal) => get("/v1/workers", { signal }), FRESH);
  const [isAdding, setAdding] = useState(false);
  const reload = () => {
    fleet.reload();
    workers.reload();
  };
  const shown = workers.data?.workers.find((each) => each.worker_id === open);
  return (
    <div class="stack">
      <div class="fleet-figures">
        {fleet.data && (
          <>
            <Figure name="Workers" value={count(fleet.data.total)} />
            <Figure name="Free now" value={count(fleet.data.available)} />
            <Figure name="Working" value={count(fleet.data.running)} />
            <Figure name="Failed" value={count(fleet.data.failed)} isBad={fleet.data.failed > 0} />
            <Figure name="In use, last minute" value={percent(fleet.data.utilization)} />
          </>
        )}
        {may("fleet:write") && (
          <div class="fleet-act">
            <Button icon="plus" look="main" onClick={() => setAdding(true)}>
              Add a worker
            </Button>
          </div>
        )}
      </div>
      {fleet.data?.pools
        .filter((each) => each.error !== null)
        .map((each) => (
          <Notice key={each.pool} look="warning">
            Pool {each.pool}: its last worker did not come up. {each.error}
          </Notice>
        ))}
      {workers.error && <ErrorBox error={workers.error} retry={workers.reload} />}
      {workers.data === null && !workers.error && <Loading />}
      {workers.data?.workers.length === 0 && (
        <Empty title="There is no worker">
          <p>Jobs are taken and wait. Add a ComfyUI, or start the server with --workers 1.</p>
        </Empty>
      )}
      <ul class="fleet-workers">
        {workers.data?.workers.map((each) => (
          <WorkerCard key={each.worker_id} worker={each} reload={reload} />
        ))}
      </ul>
      {isAdding && (
        <Dialog title="Add a worker" close={() => setAdding(false)}>
          <AddWorker
            added={() => {
              setAdding(false);
              reload();
            }}
          />
        </Dialog>
      )}
      {shown && <LogDialog worker={shown} />}
    </div>
  );
}

function WorkerCard({ worker, reload }: { worker: Worker; reload: () => void }) {
  const { worker_id: id } = worker;
  const state = worker.cordoned && worker.status === "idle" ? "cordoned" : worker.status;
  const open = worker.breakers.filter((each) => each.state !== "closed");
  return (
    <li class="card padded fleet-worker" data-testid={`worker-${id}`}>
      <header class="row">
        <h2>{id}</h2>
        <Pill state={state} />
        {worker.health !== "ok" && worker.health !== state && (
          <Pill state="warn">{worker.health}</Pill>
        )}
        <span class="push soft small">
          {worker.driver}
          {worker.device !== null && ` · ${worker.device}`}
        </span>
      </header>
      <CurrentJobs jobs={worker.current_jobs} />
      <Memory worker={worker} />
      <p class="small">
        <span class="soft">Models in memory: </span>
        {worker.cached_models.length === 0 ? "none" : worker.cached_models.join(", ")}
      </p>
      <p class="small soft">
        {plural(worker.node_types, "node type")}
        {worker.last_active_at !== null && (
          <>
            {" · last job "}
            <Time at={worker.last_active_at} />
          </>
        )}
      </p>
      {worker.error !== null && (
        <Notice look="warning">
          {worker.error_detail?.message ?? worker.error}
          {worker.error_detail?.suggested_action && ` ${worker.error_detail.suggested_action}`}
        </Notice>
      )}
      {open.map((each) => (
        <Notice key={`${each.kind}${each.model}`} look="warning">
          Gets no jobs{each.model === null ? "" : ` with ${each.model}`} after{" "}
          {plural(each.failures, "failure")}
          {each.cause === null ? "" : `: ${each.cause}`}
        </Notice>
      ))}
      <footer class="row">
        {may("fleet:write") && <Acts worker={worker} reload={reload} />}
        <Button small look="quiet" icon="list" onClick={() => setQuery({ worker: id })}>
          Log
        </Button>
      </footer>
    </li>
  );
}

function CurrentJobs({ jobs }: { jobs: string[] }) {
  if (jobs.length === 0) return <p class="small soft">Runs nothing.</p>;
  return (
    <ul class="fleet-jobs">
      {jobs.map((id) => (
        <CurrentJob key={id} id={id} />
      ))}
    </ul>
  );
}

function CurrentJob({ id }: { id: string }) {
  const progress = useComputed(() => progressOfJobs.value.get(id)?.progress ?? null).value;
  return (
    <li>
      <a href={href(["jobs", id])}>Job {shortId(id)}</a>
      <Bar value={progress} label={`Progress of job ${shortId(id)}`} />
      <span class="small soft number">{progress === null ? "" : percent(progress)}</span>
    </li>
  );
}

function Memory({ worker }: { worker: Worker }) {
  const { memory_total: total, memory_free: free } = worker;
  if (total === null || free === null || total === 0) return null;
  return (
    <div class="fleet-memory">
      <Bar value={(total - free) / total} label={`Memory of ${worker.worker_id} in use`} />
      <span class="small soft number">
        Memory: {bytes(total - free)} of {bytes(total)} in use
      </span>
    </div>
  );
}

function Acts({ worker, reload }: { worker: Worker; reload: () => void }) {
  const [isRemoving, setRemoving] = useState(false);
  const path = { worker_id: worker.worker_id };
  const act = async (begun: Promise<unknown>, told: string) => {
    if ((await attempt(() => begun)) === null) return;
    say(told);
    reload();
  };
  const isIn = !worker.cordoned && !["draining", "stopped"].includes(worker.status);
  return (
    <>
      {isIn ? (
        <>
          <Button
            small
            onClick={() =>
              act(
                post("/v1/workers/{worker_id}/drain", { path }),
                `${worker.worker_id} finishes what it has begun and gets nothing more.`,
              )
            }
          >
            Drain
          </Button>
          <Button
            small
            look="quiet"
            onClick={() =>
              act(
                post("/v1/workers/{worker_id}/cordon", { path }),
                `${worker.worker_id} gets no new jobs.`,
              )
            }
          >
            Cordon
          </Button>
        </>
      ) : (
        <Button
          small
          look="main"
          onClick={() =>
            act(
              post("/v1/workers/{worker_id}/resume", { path }),
              `${worker.worker_id} takes jobs again.`,
            )
          }
        >
          Take it back
        </Button>
      )}
      {worker.pool === null && (
        <Button small look="quiet" onClick={() => setRemoving(true)}>
          Remove
        </Button>
      )}
      {isRemoving && (
        <ConfirmDialog
          title={`Remove ${worker.worker_id}?`}
          close={() => setRemoving(false)}
          act="Remove"
          confirm={() =>
            act(
              remove("/v1/workers/{worker_id}", { path }).then(() => true),
              `${worker.worker_id} is removed.`,
            ).then(() => setRemoving(false))
          }
        >
          What runs there is stopped and goes back to the queue. The ComfyUI itself goes on.
        </ConfirmDialog>
      )}
    </>
  );
}

function LogDialog({ worker }: { worker: Worker }) {
  const id = worker.worker_id;
  const log = useResource(`log/${id}`, (signal) =>
    get("/v1/workers/{worker_id}/logs", { path: { worker_id: id }, query: { lines: 300 }, signal }),
  );
  return (
    <Dialog title={`Log of ${id}`} close={() => setQuery({ worker: null })} wide>
      {log.error && <ErrorBox error={log.error} retry={log.reload} />}
      {log.data === null ? (
        !log.error && <Loading />
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        <pre class="fleet-log" tabIndex={0}>
          {log.data.text === "" ? "It has written nothing." : log.data.text}
        </pre>
      )}
      <div class="row">
        <Button icon="retry" onClick={log.reload}>
          Read again
        </Button>
      </div>
    </Dialog>
  );
}
