/** What all jobs have made: to look for, look at, choose from. */

import "./gallery.css";
import { useSignal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Listing } from "../../live/listing";
import { useListing } from "../../live/use_listing";
import { href, setQuery } from "../../router";
import { Chips, DayRange, MoreFilters, SearchBox, WorkflowChoice } from "../../ui/filters";
import { count, plural, shortId } from "../../ui/format";
import { Button, Empty, ErrorBox, LinkButton, Loading, Notice } from "../../ui/parts";
import type { ViewProps } from "../../views";
import { Grid } from "./grid";
import { between } from "./grid_layout";
import { Lightbox } from "./lightbox";
import {
  filterOf,
  isMoreThanZip,
  isNarrowed,
  KINDS,
  MOST_IN_ZIP,
  NO_FILTER,
  type OutputFilter,
} from "./outputs_filter";
import { type Found, idOf, outputsSource, takeEnds, zipOf } from "./outputs_list";
import { SelectionBar } from "./selection_bar";

const NONE: ReadonlySet<string> = new Set();

export default function GalleryView({ query }: ViewProps) {
  const filter = filterOf(query);
  const key = `outputs?${JSON.stringify(filter)}`;
  const listing = useListing(key, () => outputsSource(filter), takeEnds);
  const items = listing.items.value;
  const error = listing.error.value;
  const [isSelecting, setSelecting] = useState(false);
  return (
    <>
      <header>
        <h1>Gallery</h1>
        {items !== null && items.length > 0 && (
          <span class="row push">
            <Button
              small
              icon="check"
              pressed={isSelecting}
              onClick={() => setSelecting(!isSelecting)}
            >
              Select
            </Button>
            <LinkButton
              small
              href={zipOf(filter)}
              download
              icon="download"
              title={`One zip file, of the newest ${count(MOST_IN_ZIP)} at most`}
            >
              {isMoreThanZip(items.length, listing.next.value !== null)
                ? `Download the newest ${count(MOST_IN_ZIP)}`
                : "Download all"}
            </LinkButton>
          </span>
        )}
      </header>
      <Filters filter={filter} />
      <CompareNote query={query} />
      {error && <ErrorBox error={error} retry={() => listing.retry()} />}
      {items === null ? (
        !error && <Loading lines={8} />
      ) : items.length === 0 ? (
        <Nothing filter={filter} />
      ) : (
        <Outputs
          key={key}
          items={items}
          listing={listing}
          query={query}
          isSelecting={isSelecting}
          endSelecting={() => setSelecting(false)}
        />
      )}
      <OpenOne query={query} listing={listing} />
    </>
  );
}

function Filters({ filter }: { filter: OutputFilter }) {
  const { text, kind, workflow_id, from, to, execution_id, batch_id } = filter;
  return (
    <div class="filters">
      <SearchBox value={text} label="Search prompts and file names" />
      <Chips label="Kind" chips={KINDS} current={kind} choose={(id) => setQuery({ kind: id })} />
      <MoreFilters used={workflow_id !== "" || from !== "" || to !== ""}>
        <WorkflowChoice value={workflow_id} />
        <DayRange from={from} to={to} />
      </MoreFilters>
      {execution_id !== "" && (
        <span class="row">
          <a href={href(["jobs", execution_id])}>Of job {shortId(execution_id)}</a>
          <Button
            small
            look="quiet"
            icon="close"
            label="Outputs of all jobs"
            onClick={() => setQuery({ execution_id: "" })}
          />
        </span>
      )}
      {batch_id !== "" && (
        <span class="row">
          <a href={href(["batches", batch_id])}>Of batch {shortId(batch_id)}</a>
          <Button
            small
            look="quiet"
            icon="close"
            label="Outputs of all batches"
            onClick={() => setQuery({ batch_id: "" })}
          />
        </span>
      )}
    </div>
  );
}

/** While one is looked for that another is to be compared with. */
function CompareNote({ query }: { query: URLSearchParams }) {
  if (query.get("compare") === null) return null;
  return (
    <Notice>
      <span class="row">
        Choose what to compare it with.
        <Button small icon="close" onClick={() => setQuery({ compare: "" })}>
          Cancel
        </Button>
      </span>
    </Notice>
  );
}

function Nothing({ filter }: { filter: OutputFilter }) {
  if (isNarrowed(filter)) {
    return (
      <Empty title="Nothing is like that">
        <p>Outputs can be found by their prompts a moment after their job has ended.</p>
        <Button onClick={() => setQuery({ ...NO_FILTER })}>Show everything</Button>
      </Empty>
    );
  }
  return (
    <Empty title="Nothing here yet">
      <p>Pictures, films, sounds and texts that your jobs make show up here by themselves.</p>
      <LinkButton href="#/" icon="play" look="main">
        Run a workflow
      </LinkButton>
    </Empty>
  );
}

interface OutputsProps {
  items: readonly Found[];
  listing: Listing<Found>;
  query: URLSearchParams;
  isSelecting: boolean;
  endSelecting: () => void;
}

function Outputs({ items, listing, query, isSelecting, endSelecting }: OutputsProps) {
  const chosen = useSignal(NONE);
  const last = useRef<string | null>(null);
  const compared = query.get("compare");
  const held = listing.held.value.length;
  const hasMore = listing.next.value !== null;
  const isChoosing = isSelecting || chosen.value.size > 0;
  const choose = (found: Found, isRange: boolean) => {
    const next = new Set(chosen.peek());
    const id = idOf(found);
    const isOn = !next.has(id);
    const ids = isRange ? between(items.map(idOf), last.current, id) : [id];
    for (const each of ids) {
      if (isOn) next.add(each);
      else next.delete(each);
    }
    last.current = id;
    chosen.value = next;
  };
  const clear = () => {
    chosen.value = NONE;
    endSelecting();
  };
  return (
    <section class="gallery" aria-label="Outputs, newest first">
      {held > 0 && (
        <div class="gallery-new">
          <Button look="main" small icon="upload" onClick={() => toTop(listing)}>
            {`${held} new`}
          </Button>
        </div>
      )}
      <Grid
        items={items}
        label="Outputs"
        linkTo={(found) =>
          compared === null
            ? linkToOpen(query, idOf(found))
            : href(["compare"], { a: compared, b: idOf(found) })
        }
        press={(found, event) => {
          const isElsewhere = event.ctrlKey || event.metaKey; // in a tab of its own
          if (!isChoosing || isElsewhere) {
            openedHere = !isElsewhere;
            return false;
          }
          choose(found, event.shiftKey);
          return true;
        }}
        chosen={chosen}
        isChoosing={isChoosing}
        {...(compared === null ? { choose } : {})}
        more={hasMore ? () => void listing.more() : undefined}
      />
      <p class="gallery-foot soft small" role="status">
        {hasMore ? "Loading more…" : `${plural(items.length, "file")}. That is all.`}
      </p>
      {isChoosing && (
        <SelectionBar
          chosen={chosen.value}
          all={() => {
            chosen.value = new Set(items.map(idOf));
          }}
          loaded={items.length}
          clear={clear}
          removed={(ids) => {
            listing.drop(ids);
            clear();
          }}
        />
      )}
    </section>
  );
}

function toTop(listing: Listing<Found>): void {
  listing.showHeld();
  scrollTo({ top: 0 });
}

function linkToOpen(query: URLSearchParams, id: string): string {
  return href(["gallery"], { ...Object.fromEntries(query), open: id });
}

/** Whether the step before this one is the gallery without the open one: then closing is Back. */
let openedHere = false;

function close(): void {
  if (openedHere) history.back();
  else setQuery({ open: "" });
  openedHere = false;
}

function OpenOne({ query, listing }: { query: URLSearchParams; listing: Listing<Found> }) {
  const open = query.get("open");
  useEffect(() => {
    if (open === null) openedHere = false;
  }, [open]);
  if (open === null) return null;
  return (
    <Lightbox
      id={open}
      items={listing.items.value ?? []}
      hasMore={listing.next.value !== null}
      more={() => void listing.more()}
      show={(id) => setQuery({ open: id })}
      close={close}
      removed={(id) => listing.drop(new Set([id]))}
      compare={(id) => {
        // In place of the step that shows it: Back leads to where it was found.
        openedHere = false;
        setQuery({ open: "", compare: id });
      }}
    />
  );
}
