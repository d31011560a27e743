/** What the view of a batch shows: its state, its jobs as far as they are shown, their pictures. */

import { type ReadonlySignal, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, type Schemas } from "../../api/client";
import { ENDS, TURNS } from "../../live/progress";
import { type Resource, useResource } from "../../live/resource";
import { onEvents } from "../../live/stream";
import { isImage, isVideo } from "../../ui/output";
import { isOver, type Member, MemberBook } from "./members";

export type Batch = Schemas["BatchBody"];
export type Cover = Schemas["OutputBody"];
export type Covers = ReadonlyMap<string, Cover>;

const RUNNING_PACE = 5;
const PAGE = 500;
/** So many more are shown at a time. */
export const STRIDE = 200;
/** A grid up to this size is shown as a whole, so that it can be a table. */
const WHOLE_GRID = 1_000;

export function useBatch(id: string): Resource<Batch> {
  const pace = useSignal<number | null>(null);
  const batch = useResource(
    `batch/${id}`,
    (signal) => get("/v1/batches/{batch_id}", { path: { batch_id: id }, signal }),
    {
      on: TURNS,
      where: (event) => event.batch_id === id,
      ...(pace.value === null ? {} : { every: pace.value }),
    },
  );
  // One that was there before may be gone: the server may have been started with other data.
  const isRunning = batch.data?.status === "running" && batch.error?.status !== 404;
  useEffect(() => {
    pace.value = isRunning ? RUNNING_PACE : null;
  }, [isRunning]);
  return batch;
}

export interface Members {
  book: MemberBook;
  loaded: Resource<true>;
  covers: ReadonlySignal<Covers>;
  /** Undefined where all that there are so far are there. */
  more: (() => void) | undefined;
}

export function useMembers(batch: Batch): Members {
  const id = batch.batch_id;
  const book = useMemo(() => new MemberBook(), [id]);
  const [wanted, setWanted] = useState(
    batch.kind === "grid" && batch.jobs <= WHOLE_GRID ? WHOLE_GRID : STRIDE,
  );
  const [isMore, setMore] = useState(false);
  const reached = useRef(0);
  const loaded = useResource<true>(
    `members/${id}/${wanted}`,
    async (signal) => {
      book.begin();
      try {
        // Further ones are added; whoever loads the same again wants all of them anew.
        let cursor = reached.current < wanted ? book.lastIndex : -1;
        let isAll = false;
        while (!isAll && cursor < wanted - 1) {
          const page = await get("/v1/batches/{batch_id}/executions", {
            path: { batch_id: id },
            query: { cursor, limit: Math.min(wanted - 1 - cursor, PAGE) },
            signal,
          });
          book.load(page.executions as readonly Member[]);
          isAll = page.next_cursor === null;
          cursor = isAll ? cursor : Number(page.next_cursor);
        }
        setMore(!isAll);
        reached.current = wanted;
      } finally {
        book.end();
      }
      return true;
    },
    {
      // A search makes jobs as it goes on.
      on: ["execution.queued"],
      where: (event) =>
        event.batch_id === id && !book.has(event.execution_id) && book.lastIndex < wanted - 1,
    },
  );
  useEffect(
    () => onEvents((events) => book.take(events.filter((event) => event.batch_id === id))),
    [book],
  );
  const covers = useCovers(id, book, loaded.data === true);
  const more = isMore ? () => setWanted(wanted + STRIDE) : undefined;
  return { book, loaded, covers, more };
}

/** How the nodes are called, by the first job: most batches have one workflow. */
export function useTitles(book: MemberBook): ReadonlyMap<string, string> {
  const first = book.list.value[0]?.peek().execution_id ?? null;
  const form = useResource(first, (signal) =>
    get("/v2/workflows/executions/{execution_id}/workflow", {
      path: { execution_id: first ?? "" },
      signal,
    }),
  );
  return useMemo(
    () => new Map(form.data?.nodes.map((node) => [node.node_id, node.title])),
    [form.data],
  );
}

/** What is known of a file comes a moment after it: it is looked for so often. */
const MOST_LOOKS = 3;
const LOOK_PACE = 3;
const MOST_PAGES = 20;

/** A picture for each job, looked for in the time in which those without one have ended. */
function useCovers(id: string, book: MemberBook, isReady: boolean): ReadonlySignal<Covers> {
  const covers = useSignal<Covers>(new Map());
  const looks = useRef(new Map<string, number>());
  const pace = useSignal<number | null>(null);
  const missing = () =>
    book.list
      .peek()
      .map((each) => each.peek())
      .filter((member) => {
        const job = member.execution_id;
        if (job === null || !isOver(member) || member.completed_at === null) return false;
        const known = covers.peek().get(job);
        const isWhole = known !== undefined && known.media !== null;
        return !isWhole && (looks.current.get(job) ?? 0) < MOST_LOOKS;
      });
  const search = useResource<true>(
    isReady ? `covers/${id}` : null,
    async (signal) => {
      const sought = missing();
      if (sought.length > 0) {
        const found = await find(id, sought, signal);
        const next = new Map(covers.peek());
        for (const [job, cover] of found) next.set(job, cover);
        covers.value = next;
        for (const { execution_id: job, completed_at } of sought) {
          if (job === null) continue;
          // What ended long ago has what it will ever have.
          const isOld = Date.now() - Date.parse(completed_at ?? "") > 60_000;
          looks.current.set(job, isOld ? MOST_LOOKS : (looks.current.get(job) ?? 0) + 1);
        }
      }
      pace.value = missing().length > 0 ? LOOK_PACE : null;
      return true;
    },
    {
      on: [...ENDS],
      where: (event) => event.batch_id === id,
      ...(pace.value === null ? {} : { every: pace.value }),
    },
  );
  const size = book.list.value.length;
  useEffect(() => {
    if (isReady) search.reload();
  }, [size]);
  return covers;
}

async function find(
  id: string,
  sought: readonly Member[],
  signal: AbortSignal,
): Promise<Map<string, Cover>> {
  const ends = sought.map((each) => Date.parse(each.completed_at ?? ""));
  const wanted = new Set(sought.map((each) => each.execution_id));
  const found = new Map<string, Cover>();
  let cursor: string | null = null;
  for (let page = 0; page < MOST_PAGES; page++) {
    const reply: Schemas["FoundOutputs"] = await get("/v1/outputs", {
      query: {
        batch_id: id,
        created_from: iso(Math.min(...ends) - 60_000),
        created_before: iso(Math.max(...ends) + 1_000),
        limit: PAGE,
        cursor,
      },
      signal,
    });
    for (const { execution_id: job, output } of reply.outputs) {
      const known = found.get(job);
      if (!wanted.has(job) || (known !== undefined && rank(known) > rank(output))) continue;
      found.set(job, output); // they come newest first: the first of a job is the last here
    }
    cursor = reply.next_cursor;
    if (cursor === null) break;
  }
  return found;
}

function rank({ content_type: type }: Cover): number {
  return isImage(type) ? 2 : isVideo(type) ? 1 : 0;
}

function iso(time: number): string {
  return new Date(time).toISOString();
}
