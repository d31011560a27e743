/** All jobs, newest first: what they made, where they stand, what to do with them. */

import "./history.css";
import type { TargetedKeyboardEvent } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Listing } from "../../live/listing";
import { useListing } from "../../live/use_listing";
import { href, setQuery } from "../../router";
import { Chips, DayRange, MoreFilters, SearchBox, WorkflowChoice } from "../../ui/filters";
import { plural } from "../../ui/format";
import { Button, Empty, ErrorBox, LinkButton, Loading } from "../../ui/parts";
import { VirtualList } from "../../ui/virtual_list";
import { filterOf, type HistoryFilter, isNarrowed, STATES } from "./history_filter";
import { historySource, type Job, rowsInSight, takeTurns } from "./history_list";
import { HistoryRow } from "./history_row";

const idOf = (job: Job) => job.id;

export function HistoryView({ query }: { query: URLSearchParams }) {
  const filter = filterOf(query);
  const listing = useListing(
    `jobs?${JSON.stringify(filter)}`,
    () => historySource(filter),
    takeTurns,
  );
  const items = listing.items.value;
  const error = listing.error.value;
  return (
    <>
      <header>
        <h1>Jobs</h1>
        <span class="push">
          <LinkButton href="#/" icon="play" look="main">
            Run a workflow
          </LinkButton>
        </span>
      </header>
      <Filters filter={filter} />
      {error && <ErrorBox error={error} retry={() => listing.retry()} />}
      {items === null ? (
        !error && <Loading lines={8} />
      ) : items.length === 0 ? (
        <Nothing filter={filter} />
      ) : (
        <Jobs items={items} listing={listing} />
      )}
    </>
  );
}

function Filters({ filter }: { filter: HistoryFilter }) {
  const { status, text, workflow_id, from, to, batch_id } = filter;
  return (
    <div class="filters">
      <SearchBox value={text} label="Search prompts, file names, ids" />
      <Chips
        label="State"
        chips={STATES}
        current={status}
        choose={(id) => setQuery({ status: id })}
      />
      <MoreFilters used={workflow_id !== "" || from !== "" || to !== ""}>
        <WorkflowChoice value={workflow_id} />
        <DayRange from={from} to={to} />
      </MoreFilters>
      {batch_id !== "" && (
        <span class="row">
          <a href={href(["batches", batch_id])}>Of one batch</a>
          <Button
            small
            look="quiet"
            icon="close"
            label="Jobs of all batches"
            onClick={() => setQuery({ batch_id: "" })}
          />
        </span>
      )}
    </div>
  );
}

export const NO_FILTER = { status: "", text: "", workflow_id: "", from: "", to: "", batch_id: "" };

function Nothing({ filter }: { filter: HistoryFilter }) {
  if (isNarrowed(filter)) {
    return (
      <Empty title="No job is like that">
        <p>Texts of a job can be found a moment after it has ended.</p>
        <Button onClick={() => setQuery(NO_FILTER)}>Show all jobs</Button>
      </Empty>
    );
  }
  return (
    <Empty title="No jobs yet">
      <p>Every workflow that runs, through this page or any API, shows up here at once.</p>
      <LinkButton href="#/" icon="play" look="main">
        Run the first one
      </LinkButton>
    </Empty>
  );
}

const WIDE = 820;
const ROW = 64;
const NARROW_ROW = 76;

/** As many pixels as the style sheet gives a row. */
function useRowHeight(): number {
  const [isNarrow, setNarrow] = useState(innerWidth <= WIDE);
  useEffect(() => {
    const narrow = matchMedia(`(max-width: ${WIDE}px)`);
    const change = () => setNarrow(narrow.matches);
    change();
    narrow.addEventListener("change", change);
    return () => narrow.removeEventListener("change", change);
  }, []);
  return isNarrow ? NARROW_ROW : ROW;
}

function Jobs({ items, listing }: { items: readonly Job[]; listing: Listing<Job> }) {
  const rowHeight = useRowHeight();
  useEffect(() => {
    listing.inSight = rowsInSight;
  }, [listing]);
  const held = listing.held.value.length;
  const hasMore = listing.next.value !== null;
  return (
    <section class="history" aria-label="Jobs, newest first">
      {held > 0 && (
        <div class="history-new">
          <Button look="main" small icon="upload" onClick={() => toTop(listing)}>
            {plural(held, "new job")}
          </Button>
        </div>
      )}
      <div class="history-head" aria-hidden="true">
        <span />
        <span>Job</span>
        <span>State</span>
        <span>Submitted</span>
        <span>Took</span>
        <span>Worker</span>
        <span>Cost</span>
      </div>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: arrow keys go from link to link; each is a stop of its own */}
      <div onKeyDown={moveFocus}>
        <VirtualList
          items={items}
          rowHeight={rowHeight}
          keyOf={idOf}
          label="Jobs"
          row={(job, index) => <HistoryRow job={job} index={index} listing={listing} />}
          more={hasMore ? () => void listing.more() : undefined}
        />
      </div>
      <p class="history-foot soft small" role="status">
        {hasMore ? "Loading more…" : `${plural(items.length, "job")}. That is all of them.`}
      </p>
    </section>
  );
}

function toTop(listing: Listing<Job>): void {
  listing.showHeld();
  scrollTo({ top: 0 });
}

/** Up and down, as in a list of files. */
function moveFocus(event: TargetedKeyboardEvent<HTMLDivElement>): void {
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  const row = (event.target as HTMLElement).closest<HTMLElement>("[data-row]");
  if (step === 0 || row === null) return;
  const next = event.currentTarget.querySelector<HTMLElement>(
    `[data-row="${Number(row.dataset.row) + step}"] .history-link`,
  );
  if (next === null) return;
  event.preventDefault();
  next.focus({ preventScroll: true });
  next.closest("[data-row]")?.scrollIntoView({ block: "nearest" });
}
