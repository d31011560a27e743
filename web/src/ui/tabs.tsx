/** A row of tabs, and the panel of the one that is chosen. */

import type { ComponentChildren, TargetedKeyboardEvent } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { useScrollEdges } from "./scroll_edges";

interface TabsProps {
  tabs: readonly { id: string; name: string; count?: number }[];
  current: string;
  choose: (id: string) => void;
  label: string;
  /** What the chosen one shows. */
  children: ComponentChildren;
}

/** Arrow keys go from tab to tab, Home and End to the first and the last, as in other programs. */
export function Tabs({ tabs, current, choose, label, children }: TabsProps) {
  const row = useRef<HTMLDivElement>(null);
  const panel = useId();
  useScrollEdges(row);
  const tabOf = (id: string) =>
    row.current?.querySelector<HTMLElement>(`[data-tab="${CSS.escape(id)}"]`) ?? null;
  useEffect(() => {
    const [tab, all] = [tabOf(current), row.current];
    if (tab === null || all === null) return;
    // Only the row: `scrollIntoView` would move the page too.
    const left = tab.offsetLeft - all.offsetLeft;
    const right = left + tab.offsetWidth;
    if (left < all.scrollLeft) all.scrollLeft = left;
    else if (right > all.scrollLeft + all.clientWidth) all.scrollLeft = right - all.clientWidth;
  }, [current]);
  const move = (event: TargetedKeyboardEvent<HTMLDivElement>) => {
    const at = tabs.findIndex((each) => each.id === current);
    const places: Record<string, number> = {
      ArrowRight: (at + 1) % tabs.length,
      ArrowLeft: (at - 1 + tabs.length) % tabs.length,
      Home: 0,
      End: tabs.length - 1,
    };
    const next = tabs[places[event.key] ?? -1];
    if (next === undefined) return;
    event.preventDefault(); // Home and End would scroll the page
    choose(next.id);
    tabOf(next.id)?.focus();
  };
  return (
    <>
      <div class="tabs fades" role="tablist" aria-label={label} onKeyDown={move} ref={row}>
        {tabs.map(({ id, name, count }) => (
          <button
            key={id}
            type="button"
            role="tab"
            id={`${panel}-${id}`}
            data-tab={id}
            aria-selected={id === current}
            aria-controls={id === current ? panel : undefined}
            tabIndex={id === current ? 0 : -1}
            onClick={() => choose(id)}
          >
            {name}
            {count !== undefined && <span class="count">{count}</span>}
          </button>
        ))}
      </div>
      <div class="stack" role="tabpanel" id={panel} aria-labelledby={`${panel}-${current}`}>
        {children}
      </div>
    </>
  );
}
