/** A table that may be wider than the window: it scrolls by itself, by keyboard too. */

import type { ComponentChildren } from "preact";

export function TableCard({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <section class="card scroll-x" aria-label={label} tabIndex={0}>
      {children}
    </section>
  );
}
