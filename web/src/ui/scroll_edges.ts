/** Rows that scroll sideways say so: they fade where there is more of them. */

import type { RefObject } from "preact";
import { useEffect } from "preact/hooks";

/** Sets `data-more` to `start`, `end` or both, for the class `fades`; nothing where all is seen. */
export function useScrollEdges(row: RefObject<HTMLElement | null>): void {
  useEffect(() => {
    const element = row.current;
    if (element === null) return;
    const look = () => mark(element);
    const resized = new ResizeObserver(look);
    resized.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      resized.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);
  useEffect(() => {
    if (row.current !== null) mark(row.current); // what is in it may be another
  });
}

function mark(row: HTMLElement): void {
  const end = row.scrollWidth - row.clientWidth - row.scrollLeft;
  const more = [row.scrollLeft > 1 && "start", end > 1 && "end"].filter(Boolean).join(" ");
  if (more === "") delete row.dataset.more;
  else row.dataset.more = more;
}
