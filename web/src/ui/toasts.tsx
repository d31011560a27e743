/** Short messages at the edge, said to screen readers too; and acts whose errors are told so. */

import { signal } from "@preact/signals";
import { asApiError } from "../live/resource";
import { Icon } from "./icons";

interface Toast {
  id: number;
  text: string;
  look: "info" | "error";
}

const toasts = signal<Toast[]>([]);
let next = 0;
const SHOWN_MS = 5_000;
const ERROR_SHOWN_MS = 12_000;

export function say(text: string, look: Toast["look"] = "info"): void {
  const id = next++;
  toasts.value = [...toasts.value.slice(-3), { id, text, look }];
  setTimeout(() => forget(id), look === "error" ? ERROR_SHOWN_MS : SHOWN_MS);
}

/** Does it; an error is told and gives null. */
export async function attempt<T>(act: () => Promise<T>): Promise<T | null> {
  try {
    return await act();
  } catch (error) {
    say(asApiError(error).message, "error");
    return null;
  }
}

function forget(id: number): void {
  toasts.value = toasts.value.filter((each) => each.id !== id);
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ id, text, look }) => (
        <div key={id} class={`toast ${look}`}>
          <span>{text}</span>
          <button type="button" aria-label="Dismiss" onClick={() => forget(id)}>
            <Icon name="close" size={16} />
          </button>
        </div>
      ))}
    </div>
  );
}
