/** Copying, also where the page came without TLS: browsers have no clipboard there. */

import { say } from "./toasts";

export async function copy(text: string): Promise<void> {
  try {
    if (navigator.clipboard !== undefined) await navigator.clipboard.writeText(text);
    else if (!copyBySelection(text)) throw new Error("refused");
    say("Copied.");
  } catch {
    say("The browser did not let the page copy. Mark the text and copy it yourself.", "error");
  }
}

function copyBySelection(text: string): boolean {
  const before = document.activeElement;
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "hidden";
  // What is outside of a dialog cannot be marked while it is open.
  const around = before?.closest("dialog") ?? document.body;
  around.append(field);
  field.select();
  const isDone = document.execCommand("copy");
  field.remove();
  if (before instanceof HTMLElement) before.focus();
  return isDone;
}
