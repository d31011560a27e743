/** Dropping a workflow anywhere on the page, or pasting its JSON, opens it. */

import { useEffect, useState } from "preact/hooks";
import { go, href } from "../../router";
import { say } from "../../ui/toasts";
import { shelve } from "./file_shelf";

export const ACCEPTED = ".json,.png,.webp,.txt,application/json,image/png,image/webp";
const LARGEST = 64 << 20;

export async function openFile(file: File | undefined | null): Promise<void> {
  if (file === undefined || file === null) return;
  if (file.size > LARGEST) {
    say(`${file.name} is larger than 64 MiB, which is more than the server takes.`, "error");
    return;
  }
  go(href(["run", "file", await shelve(file)]));
}

export function useFileDrop(): { isOver: boolean } {
  const [isOver, setOver] = useState(false);
  useEffect(() => {
    const hasFile = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
    const isElsewhere = (event: Event) =>
      event.target instanceof Element && event.target.closest("[data-drop='own']") !== null;
    const over = (event: DragEvent) => {
      if (!hasFile(event)) return;
      event.preventDefault();
      setOver(!isElsewhere(event));
    };
    const leave = (event: DragEvent) => {
      if (event.relatedTarget === null) setOver(false);
    };
    const drop = (event: DragEvent) => {
      if (!hasFile(event)) return;
      event.preventDefault();
      setOver(false);
      if (!isElsewhere(event)) void openFile(event.dataTransfer?.files[0]);
    };
    const paste = (event: ClipboardEvent) => {
      const target = event.target;
      if (target instanceof Element && target.closest("input, textarea, [data-drop='own']")) return;
      const text = event.clipboardData?.getData("text/plain").trim() ?? "";
      const file = event.clipboardData?.files[0];
      if (file !== undefined) void openFile(file);
      else if (text.startsWith("{")) {
        void openFile(new File([text], "pasted.json", { type: "application/json" }));
      }
    };
    document.addEventListener("dragover", over);
    document.addEventListener("dragleave", leave);
    document.addEventListener("drop", drop);
    document.addEventListener("paste", paste);
    return () => {
      document.removeEventListener("dragover", over);
      document.removeEventListener("dragleave", leave);
      document.removeEventListener("drop", drop);
      document.removeEventListener("paste", paste);
    };
  }, []);
  return { isOver };
}
