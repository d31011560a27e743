/** Where one was in a list. */

import { useEffect, useMemo } from "preact/hooks";

/** Where one was in each list, so that Back leads there. */
const places = new Map<string, number>();

/** A step of the history that shows a list is marked; one that is marked already was come back to. */
export function useKeptScroll(key: string, isThere: boolean): void {
  const isReturn = useMemo(() => isMarked(key), [key]);
  useEffect(() => {
    if (!isThere) return;
    const top = places.get(key) ?? 0;
    // Behind the frame's own way to the top.
    const timer = setTimeout(() => {
      if (isReturn && top > 0) scrollTo(0, top);
    });
    const here = path();
    const keep = () => {
      if (path() !== here) return; // on the way to another view
      if (!isMarked(key)) history.replaceState({ list: key }, "");
      places.set(key, scrollY);
    };
    if (!isReturn) keep();
    addEventListener("scroll", keep, { passive: true });
    return () => {
      clearTimeout(timer);
      removeEventListener("scroll", keep);
    };
  }, [key, isThere]);
}

function path(): string | undefined {
  return location.hash.split("?")[0];
}

function isMarked(key: string): boolean {
  return (history.state as { list?: string } | null)?.list === key;
}
