/** The workflows that come with Comfyrail: they need no GPU and no model. */

const workflows = import.meta.glob<string>("../../../../workflows/*/workflow.json", {
  query: "?raw",
  import: "default",
});
const previews = import.meta.glob<string>("../../../../workflows/*/preview.png", {
  query: "?url",
  import: "default",
});
const descriptions = import.meta.glob<string>("../../../../workflows/*/description.md", {
  query: "?raw",
  import: "default",
  eager: true,
});

export interface Example {
  name: string;
  title: string;
  description: string;
  workflow: () => Promise<string>;
  preview: () => Promise<string | null>;
}

export const EXAMPLES: readonly Example[] = Object.entries(workflows).map(([path, workflow]) => {
  const folder = path.slice(0, path.lastIndexOf("/"));
  const name = folder.slice(folder.lastIndexOf("/") + 1);
  const { title, first } = readDescription(descriptions[`${folder}/description.md`] ?? "");
  return {
    name,
    title: title || name,
    description: first,
    workflow,
    preview: async () => (await previews[`${folder}/preview.png`]?.()) ?? null,
  };
});

/** The heading, and the first sentence below it. */
export function readDescription(text: string): { title: string; first: string } {
  const title = /^#\s+(.+)$/m.exec(text)?.[1]?.trim() ?? "";
  const body =
    text
      .replace(/^#.*$/m, "")
      .trim()
      .split(/\n\s*\n/)[0] ?? "";
  const line = body.replace(/\s+/g, " ");
  const end = line.search(/[.:](\s|$)/);
  return { title, first: end < 0 ? line : `${line.slice(0, end)}.` };
}
