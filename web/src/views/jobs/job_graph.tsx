/** The graph of a job, live: every node with its state, and what it made. */

import { type ReadonlySignal, type Signal, useComputed, useSignal } from "@preact/signals";
import type { TargetedKeyboardEvent } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { setQuery } from "../../router";
import { count } from "../../ui/format";
import { Icon } from "../../ui/icons";
import { pictureOf } from "../../ui/output";
import { Button, Empty, ErrorBox, Loading, Notice } from "../../ui/parts";
import { type Box, frameOf } from "./geometry";
import { drawingOf } from "./graph_drawing";
import type { FormNode, JobData, JobOutput } from "./job_data";
import { MiniBar } from "./mini_bar";
import { howFar, NODE_ICON, NODE_WORD, type NodeBook, spoken, tookOf } from "./node_states";
import { usePanning } from "./use_viewport";

/** More are slow to draw, and nobody finds anything among them: the list has them all. */
const MOST_DRAWN = 2_000;
const STEP = 1.3;

interface JobGraphProps {
  data: JobData;
  outputs: readonly JobOutput[];
  selected: string | null;
}

export function JobGraph({ data, outputs, selected }: JobGraphProps) {
  const { form } = data;
  if (form.error) return <ErrorBox error={form.error} retry={form.reload} />;
  if (form.data === null) return <Loading lines={8} />;
  const { nodes, nodes_total: total } = form.data;
  if (nodes.length === 0) {
    return (
      <Empty title="There is nothing to draw">
        <p>None of the nodes of this workflow runs.</p>
      </Empty>
    );
  }
  return (
    <div class="job-graph-part stack">
      {total > MOST_DRAWN && (
        <Notice>
          The first {count(MOST_DRAWN)} of {count(total)} nodes are drawn. The list under Nodes has
          them all.
        </Notice>
      )}
      <Canvas
        nodes={nodes.length > MOST_DRAWN ? nodes.slice(0, MOST_DRAWN) : nodes}
        book={data.book}
        isTold={data.nodes.data !== null}
        outputs={outputs}
        selected={selected}
      />
    </div>
  );
}

interface CanvasProps {
  nodes: readonly FormNode[];
  book: NodeBook;
  /** Whether the states of the nodes are known. */
  isTold: boolean;
  outputs: readonly JobOutput[];
  selected: string | null;
}

function Canvas({ nodes, book, isTold, outputs, selected }: CanvasProps) {
  const room = useRef<HTMLDivElement>(null);
  const sheet = useRef<HTMLDivElement>(null);
  const drawing = useMemo(() => drawingOf(nodes), [nodes]);
  const frame = useMemo(() => frameOf(drawing.boxes), [drawing]);
  const panning = usePanning(room, sheet, frame, () => {
    const id = newsOf(nodes, book);
    return id === null ? null : (drawing.byId.get(id) ?? null);
  });
  const clicked = useRef<string | null>(null);
  const marked = useSignal(selected);
  const tabStop = useSignal(nodes[0]?.node_id ?? "");
  const made = useMade(outputs);

  useEffect(() => {
    marked.value = selected;
    const box = selected === null ? undefined : drawing.byId.get(selected);
    if (box === undefined) return;
    tabStop.value = box.id;
    // Whoever clicked on it sees it, and what stands around it.
    if (clicked.current === box.id) panning.reveal(box);
    else {
      panning.approach(box);
      room.current?.scrollIntoView({ block: "nearest" });
    }
    clicked.current = null;
  }, [selected, drawing]);
  useEffect(() => {
    if (isTold) panning.openAgain();
  }, [isTold]);

  const move = (event: TargetedKeyboardEvent<HTMLDivElement>) => {
    const from = (event.target as HTMLElement).dataset.node;
    if (from === undefined) return;
    const next = neighbour(nodes, from, event.key);
    if (next === null) return;
    event.preventDefault();
    const target = room.current?.querySelector<HTMLElement>(`[data-node="${CSS.escape(next)}"]`);
    target?.focus({ preventScroll: true });
  };
  // The same objects again: when something else changes, Preact does not look at the nodes.
  const cards = useMemo(
    () =>
      nodes.map((node) => {
        const box = drawing.byId.get(node.node_id);
        return (
          box !== undefined && (
            <NodeCard
              key={node.node_id}
              node={node}
              box={box}
              book={book}
              marked={marked}
              tabStop={tabStop}
              made={made}
              focused={() => {
                tabStop.value = node.node_id;
                panning.reveal(box);
              }}
              chosen={() => {
                if (panning.wasDragged()) return;
                clicked.current = node.node_id;
                setQuery({ node: marked.peek() === node.node_id ? null : node.node_id });
              }}
            />
          )
        );
      }),
    [nodes, drawing, book],
  );
  const { x, y, width, height } = frame;
  return (
    <div class="job-graph card">
      {/* biome-ignore lint/a11y/useSemanticElements: a fieldset is for forms */}
      <div
        ref={room}
        class="job-graph-room"
        role="group"
        aria-label="Graph of the job. Arrow keys go from node to node."
        onKeyDown={move}
      >
        <div ref={sheet} class="job-graph-sheet">
          <svg
            class="job-edges"
            viewBox={`${x} ${y} ${width} ${height}`}
            style={{ left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${height}px` }}
            aria-hidden="true"
          >
            <path d={drawing.links} />
            {selected !== null && <path class="marked" d={drawing.linksOf(selected)} />}
          </svg>
          {cards}
        </div>
      </div>
      <div class="job-graph-tools" data-still>
        <Button small icon="plus" label="Zoom in" onClick={() => panning.zoom(STEP)} />
        <Button small icon="minus" label="Zoom out" onClick={() => panning.zoom(1 / STEP)} />
        <Button small onClick={panning.fit}>
          Fit
        </Button>
      </div>
    </div>
  );
}

/** Where something happens: the node that failed, or the first that runs. */
function newsOf(nodes: readonly FormNode[], book: NodeBook): string | null {
  const are = (status: string) =>
    nodes.find((node) => book.stateOf(node.node_id).peek().status === status)?.node_id;
  return are("failed") ?? are("running") ?? null;
}

function neighbour(nodes: readonly FormNode[], from: string, key: string): string | null {
  const at = nodes.findIndex((node) => node.node_id === from);
  const places: Record<string, number> = {
    ArrowRight: at + 1,
    ArrowDown: at + 1,
    ArrowLeft: at - 1,
    ArrowUp: at - 1,
    Home: 0,
    End: nodes.length - 1,
  };
  return nodes[places[key] ?? -1]?.node_id ?? null;
}

interface Made {
  picture?: string;
  text?: string;
}

type MadeOf = ReadonlySignal<ReadonlyMap<string, Made>>;

/** Something to look at for each node that made a picture or a text. */
function useMade(outputs: readonly JobOutput[]): MadeOf {
  const made = useSignal<ReadonlyMap<string, Made>>(new Map());
  const found = new Map<string, Made>();
  for (const output of outputs) {
    if (output.gone_at !== null || found.has(output.node_id)) continue;
    const picture = pictureOf(output, 256);
    const text = output.media?.first_line ?? null;
    if (picture !== null) found.set(output.node_id, { picture });
    else if (text !== null) found.set(output.node_id, { text });
  }
  const written = JSON.stringify([...found]);
  useEffect(() => {
    made.value = found;
  }, [written]);
  return made;
}

interface NodeCardProps {
  node: FormNode;
  box: Box;
  book: NodeBook;
  marked: Signal<string | null>;
  tabStop: Signal<string>;
  made: MadeOf;
  focused: () => void;
  chosen: () => void;
}

function NodeCard(props: NodeCardProps) {
  const { node, box, book, marked, tabStop, made, focused, chosen } = props;
  const id = node.node_id;
  const state = book.stateOf(id).value;
  const isMarked = useComputed(() => marked.value === id).value;
  const isStop = useComputed(() => tabStop.value === id).value;
  const shown = useComputed(() => made.value.get(id)).value;
  const { status } = state;
  return (
    <button
      type="button"
      class={`job-node ${status}`}
      data-node={id}
      data-state={status}
      tabIndex={isStop ? 0 : -1}
      aria-pressed={isMarked}
      onClick={chosen}
      onFocus={focused}
      style={{
        left: `${box.x}px`,
        top: `${box.y}px`,
        width: `${box.width}px`,
        height: `${box.height}px`,
      }}
    >
      <span class="hidden">{spoken(node.title, state)}</span>
      <span class="job-node-title" aria-hidden="true">
        {node.title}
      </span>
      {node.class_type !== node.title && (
        <span class="job-node-type" aria-hidden="true">
          {node.class_type}
        </span>
      )}
      <span class={`job-mark ${status}`} aria-hidden="true">
        <Icon name={NODE_ICON[status]} size={14} />
        {NODE_WORD[status]}
        <span class="number">{howFar(state) ?? tookOf(state)}</span>
      </span>
      {status === "running" && <MiniBar value={state.progress} />}
      {shown?.picture !== undefined && (
        <img class="job-node-picture" src={shown.picture} alt="" loading="lazy" />
      )}
      {shown?.text !== undefined && <span class="job-node-text">{shown.text}</span>}
    </button>
  );
}
