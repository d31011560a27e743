/** What the view of a job shows: from the server when it is opened, and by events from then on. */

import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { address, get, getBlob, type Schemas } from "../../api/client";
import { progressOfJobs, TURNS } from "../../live/progress";
import { type Resource, useResource } from "../../live/resource";
import { onEvents } from "../../live/stream";
import { type Floor, NodeBook } from "./node_states";

export type Job = Schemas["V2Execution"];
export type JobOutput = Schemas["V2Output"];
export type JobForm = Schemas["JobFormBody"];
export type FormNode = Schemas["FormNode"];

export interface JobData {
  status: Resource<Job>;
  form: Resource<JobForm>;
  nodes: Resource<true>;
  book: NodeBook;
}

/** While it waits no event tells of its place, and while it runs none of the time that is left. */
const OPEN_PACE = 5;
/** What is known of its files comes a moment after its end, and no event tells of it. */
const MEDIA_PACE = 3;
const MEDIA_AWAITED_MS = 60_000;

export function isOpen(job: Job): boolean {
  return job.status === "queued" || job.status === "processing";
}

/** Also one that was there before: the server may have been started with other data. */
export function isGone({ error }: Pick<Resource<unknown>, "error">): boolean {
  return error?.status === 404;
}

export function useJob(id: string): JobData {
  const book = useMemo(() => new NodeBook(), [id]);
  const path = { execution_id: id };
  const where = (event: { execution_id: string | null }) => event.execution_id === id;
  const pace = useSignal<number | null>(null);
  const status = useResource(
    `job/${id}`,
    (signal) => get("/v2/workflows/executions/{execution_id}", { path, signal }),
    {
      on: [...TURNS, "execution.output_ready"],
      where,
      ...(pace.value === null ? {} : { every: pace.value }),
    },
  );
  const job = isGone(status) ? null : status.data;
  useEffect(() => {
    pace.value = job === null ? null : paceOf(job);
  }, [job]);
  const floor = useRef<Floor>({ event: 0, attempt: 0 });
  floor.current = { event: job?.last_event ?? 0, attempt: job?.retries.attempts ?? 0 };
  const known = job === null ? null : id;
  const nodes = useResource<true>(
    known,
    async (signal) => {
      book.begin(floor.current);
      try {
        const reply = await get("/v2/workflows/executions/{execution_id}/nodes", { path, signal });
        book.load(reply.nodes);
      } finally {
        book.endLoad();
      }
      return true;
    },
    { on: TURNS, where },
  );
  const form = useResource(known, (signal) =>
    get("/v2/workflows/executions/{execution_id}/workflow", { path, signal }),
  );
  useEffect(() => onEvents((events) => book.take(events.filter(where))), [book]);
  return { status, form, nodes, book };
}

function paceOf(job: Job): number | null {
  if (isOpen(job)) return OPEN_PACE;
  const ended = Date.parse(job.timing.completed_at ?? "");
  const isFresh = Date.now() - ended < MEDIA_AWAITED_MS;
  const isUnknown = job.result?.outputs.some((each) => each.media === null) ?? false;
  return isFresh && isUnknown ? MEDIA_PACE : null;
}

/** How far it is, by the newest event that told. */
export function useProgress(job: Job) {
  const told = useComputed(() => progressOfJobs.value.get(job.id)).value;
  return {
    fraction: Math.max(told?.progress ?? 0, job.progress.fraction),
    currentNode: told === undefined ? job.progress.current_node : told.currentNode,
    completedNodes: Math.max(told?.completedNodes ?? 0, job.progress.completed_nodes),
    totalNodes: told?.totalNodes || job.progress.total_nodes,
    preview: told?.preview ?? job.progress.preview ?? 0,
  };
}

/** The newest picture of what is being sampled, as a URL of this page; null where there is none. */
export function usePreview(job: Job, number: number): string | null {
  const shown = useSignal<string | null>(null);
  const isWanted = job.status === "processing" && number > 0;
  const running = useRef(false);
  const wanted = useRef(0);
  /** Pictures of one attempt are not those of another. */
  const series = useRef(0);
  const { id } = job;
  const { attempts } = job.retries;
  const forget = () => {
    series.current += 1;
    if (shown.peek() !== null) URL.revokeObjectURL(shown.peek() as string);
    shown.value = null;
  };
  useEffect(() => forget, [id, attempts, isWanted]);
  useEffect(() => {
    if (number < wanted.current) forget(); // it counts from the beginning again
    wanted.current = isWanted ? number : 0;
    if (!isWanted || running.current) return;
    const fetchAll = async () => {
      // One at a time: what has come meanwhile is fetched after it.
      let [had, of] = [0, 0];
      while (wanted.current !== 0 && (had !== wanted.current || of !== series.current)) {
        [had, of] = [wanted.current, series.current];
        const url = address("/v2/workflows/executions/{execution_id}/preview", {
          execution_id: id,
        });
        const picture = await getBlob(url);
        if (picture === null || wanted.current === 0 || of !== series.current) continue;
        const old = shown.peek();
        shown.value = URL.createObjectURL(picture);
        if (old !== null) URL.revokeObjectURL(old);
      }
    };
    running.current = true;
    // One that did not come is no news: the next one will, or the job has ended.
    fetchAll()
      .catch(() => undefined)
      .finally(() => {
        running.current = false;
      });
  }, [id, attempts, number, isWanted]);
  useEffect(
    () => () => {
      wanted.current = 0;
    },
    [id],
  );
  return job.status === "processing" ? shown.value : null;
}
