/** All batches, the newest first. */

import { get } from "../../api/client";
import { usePages } from "../../live/pages";
import { TURNS } from "../../live/progress";
import { href } from "../../router";
import { count, percent, plural } from "../../ui/format";
import { Bar, Button, Empty, ErrorBox, Loading, Pill, Time } from "../../ui/parts";
import { JOB_WORD } from "../../ui/words";
import type { Batch } from "./batch_data";
import { KIND_WORD, nameOf, STATUS_WORD } from "./words";

export function BatchList() {
  const { items, error, more, reload } = usePages(
    "batches",
    async (cursor, signal) => {
      const page = await get("/v1/batches", { query: { limit: 50, cursor }, signal });
      return { items: page.batches, next: page.next_cursor };
    },
    { on: TURNS, where: (event) => event.batch_id !== null, every: 10 },
  );
  return (
    <>
      <header>
        <h1>Batches</h1>
      </header>
      {error && <ErrorBox error={error} retry={reload} />}
      {items === null && !error && <Loading />}
      {items?.length === 0 && (
        <Empty title="No batches yet">
          <p>
            A batch is one workflow with many values: a grid of settings, several seeds, a search
            for the best. <a href="#/">Choose a workflow</a> and run it more than once, or send one
            to <code>POST /v1/batches</code>.
          </p>
        </Empty>
      )}
      {items !== null && items.length > 0 && (
        <ul class="batch-list card">
          {items.map((batch) => (
            <BatchRow key={batch.batch_id} batch={batch} />
          ))}
        </ul>
      )}
      {more && (
        <div>
          <Button onClick={more}>Show more</Button>
        </div>
      )}
    </>
  );
}

function BatchRow({ batch }: { batch: Batch }) {
  const name = nameOf(batch);
  return (
    <li class="batch-row" data-testid={`batch-${batch.batch_id}`}>
      <div class="batch-name">
        <a href={href(["batches", batch.batch_id])}>{name}</a>
        <span class="soft small">
          {KIND_WORD[batch.kind]} · {plural(batch.jobs, "job")} · <Time at={batch.submitted_at} />
        </span>
      </div>
      <div class="batch-progress">
        <span class="row">
          <Pill state={batch.status}>{STATUS_WORD[batch.status]}</Pill>
          <span class="soft small number push">{percent(batch.progress)}</span>
        </span>
        {batch.status === "running" && <Bar value={batch.progress} label={`Progress of ${name}`} />}
      </div>
      <span class="batch-counts soft small">{countsText(batch)}</span>
    </li>
  );
}

function countsText({ counts }: Batch): string {
  const parts: [number, string][] = [
    [counts.completed, JOB_WORD.completed],
    [counts.failed, JOB_WORD.failed],
    [counts.cancelled, JOB_WORD.cancelled],
    [counts.unmade, "not made"],
    [counts.processing, JOB_WORD.processing],
    [counts.queued, JOB_WORD.queued],
    [counts.awaiting_score, "to be scored"],
  ];
  return parts
    .filter(([number]) => number > 0)
    .map(([number, word]) => `${count(number)} ${word}`)
    .join(", ");
}
