/** A long list of rows of one height, of which only those in sight are there. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

interface VirtualListProps<T> {
  items: readonly T[];
  rowHeight: number;
  keyOf: (item: T) => string;
  row: (item: T, index: number) => ComponentChildren;
  label: string;
  /** Called when the end comes in sight. */
  more?: (() => void) | undefined;
}

/** Rows beyond the edges, so that scrolling shows no gaps. */
const SPARE = 8;

/** Scrolls with the window; takes the place that all rows together would. */
export function VirtualList<T>(props: VirtualListProps<T>) {
  const { items, rowHeight, keyOf, row, label, more } = props;
  const box = useRef<HTMLUListElement>(null);
  const [range, setRange] = useState<[number, number]>([0, 40]);
  const wanted = useRef(more);
  wanted.current = more;

  useEffect(() => {
    let frame = 0;
    const look = () => {
      frame = 0;
      const top = box.current?.getBoundingClientRect().top ?? 0;
      const first = Math.max(0, Math.floor(-top / rowHeight) - SPARE);
      const last = Math.min(items.length, Math.ceil((innerHeight - top) / rowHeight) + SPARE);
      setRange((old) => (old[0] === first && old[1] === last ? old : [first, last]));
      if (last >= items.length - SPARE) wanted.current?.();
    };
    const soon = () => {
      if (frame === 0) frame = requestAnimationFrame(look);
    };
    look();
    addEventListener("scroll", soon, { passive: true });
    addEventListener("resize", soon);
    return () => {
      cancelAnimationFrame(frame);
      removeEventListener("scroll", soon);
      removeEventListener("resize", soon);
    };
  }, [items.length, rowHeight]);

  const [first, last] = range;
  return (
    <ul
      ref={box}
      class="virtual"
      aria-label={label}
      style={{ height: `${items.length * rowHeight}px` }}
    >
      {items.slice(first, last).map((item, offset) => (
        <li
          key={keyOf(item)}
          aria-setsize={items.length}
          aria-posinset={first + offset + 1}
          style={{
            height: `${rowHeight}px`,
            transform: `translateY(${(first + offset) * rowHeight}px)`,
          }}
        >
          {row(item, first + offset)}
        </li>
      ))}
    </ul>
  );
}
