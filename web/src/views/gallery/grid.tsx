/** The outputs as squares; only the rows in sight are there. */

import { type ReadonlySignal, useComputed } from "@preact/signals";
import type { TargetedKeyboardEvent } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { duration } from "../../ui/format";
import { Icon } from "../../ui/icons";
import { isAudio, isVideo, pictureOf, Thumb } from "../../ui/output";
import { VirtualList } from "../../ui/virtual_list";
import { type Cells, cellsIn, GAP, rowsOf } from "./grid_layout";
import { type Found, idOf } from "./outputs_list";

export interface GridProps {
  items: readonly Found[];
  label: string;
  linkTo: (found: Found) => string;
  /** Called before a link is followed; true: it is not. */
  press: (found: Found, event: MouseEvent) => boolean;
  chosen: ReadonlySignal<ReadonlySet<string>>;
  isChoosing: boolean;
  /** Undefined where nothing can be chosen. */
  choose?: (found: Found, isRange: boolean) => void;
  more: (() => void) | undefined;
}

export function Grid(props: GridProps) {
  const { items, label, more } = props;
  const box = useRef<HTMLDivElement>(null);
  const cells = useCells(box);
  const columns = cells?.columns ?? 0;
  const rows = useMemo(() => (columns === 0 ? [] : rowsOf(items, columns)), [items, columns]);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: arrow keys go from link to link; each is a stop of its own
    <div
      ref={box}
      class={props.isChoosing ? "gallery-grid choosing" : "gallery-grid"}
      onKeyDown={(event) => moveFocus(event, columns)}
    >
      {cells !== null && (
        <VirtualList
          items={rows}
          rowHeight={cells.side + GAP}
          keyOf={keyOfRow}
          label={label}
          more={more}
          row={(row, at) => (
            <div
              class="gallery-row"
              style={{
                gridTemplateColumns: `repeat(${columns}, ${cells.side}px)`,
                height: `${cells.side}px`,
              }}
            >
              {row.map((found, place) => (
                <Cell
                  key={idOf(found)}
                  {...props}
                  found={found}
                  index={at * columns + place}
                  side={cells.side}
                />
              ))}
            </div>
          )}
        />
      )}
    </div>
  );
}

const keyOfRow = (row: readonly Found[]) => (row[0] === undefined ? "" : idOf(row[0]));

function useCells(box: { current: HTMLElement | null }): Cells | null {
  const [cells, setCells] = useState<Cells | null>(null);
  useEffect(() => {
    const { current } = box;
    if (current === null) return;
    const measure = () => {
      const next = cellsIn(current.clientWidth);
      setCells((old) =>
        old?.columns === next.columns && Math.abs(old.side - next.side) < 0.5 ? old : next,
      );
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(current);
    return () => observer.disconnect();
  }, []);
  return cells;
}

interface CellProps extends GridProps {
  found: Found;
  index: number;
  side: number;
}

function Cell({ found, index, side, linkTo, press, chosen, choose }: CellProps) {
  const { output } = found;
  const isChosen = useComputed(() => chosen.value.has(output.output_id)).value;
  return (
    <div class={isChosen ? "gallery-cell chosen" : "gallery-cell"}>
      <a
        class="gallery-open"
        href={linkTo(found)}
        title={output.filename}
        data-cell={index}
        onClick={(event) => {
          if (press(found, event)) event.preventDefault();
        }}
      >
        <Face found={found} pixels={Math.min(512, side * Math.min(2, devicePixelRatio))} />
      </a>
      <Sort found={found} />
      {choose && (
        <label class="gallery-check">
          <input
            type="checkbox"
            aria-label={`Select ${output.filename}`}
            checked={isChosen}
            onClick={(event) => choose(found, event.shiftKey)}
          />
        </label>
      )}
    </div>
  );
}

/** Texts show how they begin. */
function Face({ found: { output }, pixels }: { found: Found; pixels: number }) {
  const begin = output.media?.first_line ?? "";
  if (begin === "" || pictureOf(output, 256) !== null) {
    return <Thumb output={output} pixels={pixels} />;
  }
  return (
    <span class="thumb gallery-words">
      <span class="hidden">{output.filename}: </span>
      {begin}
    </span>
  );
}

/** What is no picture says what it is. */
function Sort({ found: { output } }: { found: Found }) {
  const { content_type: type, media } = output;
  const seconds = media?.duration ?? null;
  if (!isVideo(type) && !isAudio(type) && media?.kind !== "animation") return null;
  return (
    <span class="gallery-sort">
      <Icon name={isAudio(type) ? "music" : "film"} size={13} />
      {seconds === null ? "" : duration(seconds)}
    </span>
  );
}

const STEPS: Record<string, (columns: number) => number> = {
  ArrowRight: () => 1,
  ArrowLeft: () => -1,
  ArrowDown: (columns) => columns,
  ArrowUp: (columns) => -columns,
};

function moveFocus(event: TargetedKeyboardEvent<HTMLDivElement>, columns: number): void {
  const step = STEPS[event.key]?.(columns);
  const cell = (event.target as HTMLElement).dataset.cell;
  if (step === undefined || cell === undefined) return;
  const next = event.currentTarget.querySelector<HTMLElement>(
    `[data-cell="${Number(cell) + step}"]`,
  );
  if (next === null) return;
  event.preventDefault();
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}
