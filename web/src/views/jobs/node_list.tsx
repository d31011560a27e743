/** All nodes in the order in which they run, as a list to look through. */

import { useComputed } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { setQuery } from "../../router";
import { Icon } from "../../ui/icons";
import { Empty, ErrorBox, Loading } from "../../ui/parts";
import { VirtualList } from "../../ui/virtual_list";
import type { JobData } from "./job_data";
import { MiniBar } from "./mini_bar";
import { howFar, NODE_ICON, NODE_WORD, type NodeBook, tookOf } from "./node_states";

const ROW_HEIGHT = 46;

interface Row {
  id: string;
  title: string;
  type: string;
}

export function NodeList({ data, selected }: { data: JobData; selected: string | null }) {
  const { form, nodes, book } = data;
  const ids = book.ids.value;
  const rows = useMemo(() => rowsOf(data, ids), [form.data, ids]);
  if (nodes.error) return <ErrorBox error={nodes.error} retry={nodes.reload} />;
  if (nodes.data === null) return <Loading />;
  if (rows.length === 0) {
    return (
      <Empty title="No nodes yet">
        <p>They show up here when the job begins.</p>
      </Empty>
    );
  }
  return (
    <div class="job-nodes card">
      <VirtualList
        items={rows}
        rowHeight={ROW_HEIGHT}
        keyOf={(row) => row.id}
        label="Nodes in the order in which they run"
        row={(row) => <NodeRow row={row} book={book} isSelected={row.id === selected} />}
      />
    </div>
  );
}

/** Those of the graph in their order, then those that nodes have made while they ran. */
function rowsOf({ form, book }: JobData, ids: readonly string[]): Row[] {
  const listed = form.data?.nodes ?? [];
  const known = new Set(listed.map((node) => node.node_id));
  return [
    ...listed.map(({ node_id, title, class_type }) => ({ id: node_id, title, type: class_type })),
    ...ids
      .filter((id) => !known.has(id))
      .map((id) => ({ id, title: book.typeOf(id) ?? id, type: book.typeOf(id) ?? "" })),
  ];
}

interface NodeRowProps {
  row: Row;
  book: NodeBook;
  isSelected: boolean;
}

function NodeRow({ row, book, isSelected }: NodeRowProps) {
  const state = useComputed(() => book.stateOf(row.id).value).value;
  const { status } = state;
  return (
    <button
      type="button"
      class="job-node-row"
      data-node={row.id}
      aria-pressed={isSelected}
      onClick={() => setQuery({ node: isSelected ? null : row.id })}
    >
      <span class={`job-mark ${status}`}>
        <Icon name={NODE_ICON[status]} size={15} />
        {NODE_WORD[status]}
      </span>
      <span class="job-node-name">
        <span>{row.title}</span>
        <span class="soft small">
          {row.type === row.title ? row.id : `${row.type} · ${row.id}`}
        </span>
      </span>
      <span class="job-node-time soft number">
        {status === "running" ? (
          <>
            {howFar(state)}
            <MiniBar value={state.progress} />
          </>
        ) : (
          tookOf(state)
        )}
      </span>
    </button>
  );
}
