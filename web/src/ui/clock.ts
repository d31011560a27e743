/** The time, for what says how long ago something was: it moves on every 15 seconds. */

import { signal } from "@preact/signals";

export const now = signal(Date.now());

setInterval(() => {
  if (document.visibilityState === "visible") now.value = Date.now();
}, 15_000);
