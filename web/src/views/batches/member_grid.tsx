/** All jobs of a batch side by side: as a table where two things differ, else one after the other. */

import type { Signal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { href, setQuery } from "../../router";
import { count } from "../../ui/format";
import { Button, Empty, ErrorBox, LinkButton, Loading } from "../../ui/parts";
import { shortValue, valueText } from "../../ui/values";
import { type Batch, STRIDE, useMembers, useTitles } from "./batch_data";
import { MemberCell, type MemberCellProps } from "./member_cell";
import { labelOf, type Member, type Table, tableOf, varying } from "./members";

interface MemberGridProps {
  batch: Batch;
  update: (batch: Batch) => void;
  query: URLSearchParams;
}

export function MemberGrid({ batch, update, query }: MemberGridProps) {
  const { book, loaded, covers, more } = useMembers(batch);
  const list = book.list.value;
  const table = useMemo(
    () => (batch.kind === "grid" ? tableOf(list, (each) => each.peek()) : null),
    [list, batch.kind],
  );
  const targets = useMemo(() => new Set(varying(list.map((each) => each.peek())).keys()), [list]);
  const titles = useTitles(book);
  const picked = (query.get("pick") ?? "").split(",").filter((each) => each !== "");
  const pick = (output: string) => {
    const others = picked.filter((each) => each !== output);
    const next = others.length < picked.length ? others : [...picked.slice(-1), output];
    setQuery({ pick: next.join(",") });
  };
  if (loaded.error && list.length === 0) {
    return <ErrorBox error={loaded.error} retry={loaded.reload} />;
  }
  if (list.length === 0) {
    return loaded.data === null ? (
      <Loading />
    ) : (
      <Empty title="No jobs yet">
        <p>The first ones show up here in a moment.</p>
      </Empty>
    );
  }
  const label = (target: string) => labelOf(target, titles);
  const cell = { covers, picked, pick, label, batch, update };
  const isSorted = batch.goal !== null && query.get("sort") === "score";
  return (
    <section class="stack" aria-label="Jobs of the batch">
      {loaded.error && <ErrorBox error={loaded.error} retry={loaded.reload} />}
      <div class="row">
        <h2>Jobs</h2>
        {batch.goal !== null && (
          <Button
            small
            pressed={isSorted}
            onClick={() => setQuery({ sort: isSorted ? null : "score" })}
          >
            Best first
          </Button>
        )}
        <CompareBar picked={picked} />
      </div>
      {table !== null ? (
        <GridTable table={table} cell={cell} />
      ) : (
        <ul class="batch-grid">
          {(isSorted ? byScore(list, batch.goal === "minimize") : list).map((member) => (
            <li key={member.peek().index}>
              <MemberCell {...cell} member={member} targets={targets} />
            </li>
          ))}
        </ul>
      )}
      {more && (
        <div class="row">
          <Button onClick={more}>Show {count(STRIDE)} more</Button>
          <span class="soft">
            {count(list.length)} of {count(batch.jobs)} are shown.
          </span>
        </div>
      )}
    </section>
  );
}

/** Reads all scores: the list is in another order as soon as one is known. */
function byScore(list: readonly Signal<Member>[], isSmallest: boolean): Signal<Member>[] {
  const scoreOf = (each: Signal<Member>) => {
    const { score } = each.value;
    return score === null ? Number.NEGATIVE_INFINITY : isSmallest ? -score : score;
  };
  return [...list].sort((one, other) => {
    const [a, b] = [scoreOf(one), scoreOf(other)];
    return a === b ? 0 : b - a;
  });
}

function CompareBar({ picked }: { picked: readonly string[] }) {
  const [a, b] = picked;
  if (a === undefined) {
    return <span class="soft small push">Mark two pictures to compare them.</span>;
  }
  return (
    <span class="row push" role="status">
      {b === undefined ? (
        <span class="soft small">Mark one more to compare.</span>
      ) : (
        <LinkButton small look="main" icon="compare" href={href(["compare"], { a, b })}>
          Compare the two
        </LinkButton>
      )}
      <Button small look="quiet" onClick={() => setQuery({ pick: null })}>
        Clear
      </Button>
    </span>
  );
}

type CellParts = Omit<MemberCellProps, "member" | "targets">;
const NO_TARGETS: ReadonlySet<string> = new Set();

function GridTable({ table, cell }: { table: Table<Signal<Member>>; cell: CellParts }) {
  const { rows, columns, cells } = table;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a wide table is scrolled with the keyboard
    // biome-ignore lint/a11y/useSemanticElements: a section needs no name of its own here
    <div class="batch-table card scroll-x" role="region" aria-label="Grid" tabIndex={0}>
      <p class="batch-axes soft">
        Down: <strong>{cell.label(rows.target)}</strong>. Across:{" "}
        <strong>{cell.label(columns.target)}</strong>.
      </p>
      <table aria-label="Jobs by their values">
        <thead>
          <tr>
            <td />
            {columns.values.map((value) => (
              <th key={value} scope="col" title={valueText(value)}>
                {shortValue(value, 40)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {cells.map((row, at) => (
            <tr key={rows.values[at]}>
              <th scope="row" title={rows.values[at]}>
                {shortValue(rows.values[at], 40)}
              </th>
              {row.map((member, column) => (
                <td key={columns.values[column]}>
                  {member !== undefined && (
                    <MemberCell {...cell} member={member} targets={NO_TARGETS} />
                  )}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
