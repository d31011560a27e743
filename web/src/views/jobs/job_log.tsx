/** What happened to the job, line by line; follows the end unless one reads further up. */

import { useEffect, useRef, useState } from "preact/hooks";
import { get, type Schemas } from "../../api/client";
import { TURNS } from "../../live/progress";
import { useResource } from "../../live/resource";
import { setQuery } from "../../router";
import { count } from "../../ui/format";
import { Button, CopyButton, Empty, ErrorBox, Loading } from "../../ui/parts";
import { attempt } from "../../ui/toasts";

type Line = Schemas["LogLineBody"];

const PAGE = 5_000;
/** So many are kept in the page; the rest can be downloaded. */
const MOST_KEPT = 50_000;
const SHOWN_AT_ONCE = 1_000;
const LEVELS = { info: 0, warning: 1, error: 2 } as const;
type Level = keyof typeof LEVELS;

const ON = [
  ...TURNS,
  "execution.node_started",
  "execution.node_completed",
  "execution.model_loading",
  "execution.output_ready",
  "execution.warning",
];

export function JobLog({ id, query }: { id: string; query: URLSearchParams }) {
  const kept = useRef<Line[]>([]);
  const log = useResource(
    `log/${id}`,
    async (signal) => {
      for (;;) {
        const after = kept.current.at(-1)?.number ?? 0;
        const page = await pageAfter(id, after, signal);
        kept.current = [...kept.current, ...page.lines].slice(-MOST_KEPT);
        if (page.next_after === null || page.lines.length === 0) return kept.current;
      }
    },
    { on: ON, where: (event) => event.execution_id === id },
  );
  const asked = query.get("level");
  const level: Level = asked === "warning" || asked === "error" ? asked : "info";
  if (log.error) return <ErrorBox error={log.error} retry={log.reload} />;
  if (log.data === null) return <Loading />;
  const lines =
    level === "info"
      ? log.data
      : log.data.filter((line) => LEVELS[line.level as Level] >= LEVELS[level]);
  return (
    <div class="job-log-part stack">
      <div class="row">
        <label class="row">
          Show
          <select
            class="input job-level"
            value={level}
            onChange={(event) => {
              const { value } = event.currentTarget;
              setQuery({ level: value === "info" ? null : value });
            }}
          >
            <option value="info">everything</option>
            <option value="warning">warnings and errors</option>
            <option value="error">errors</option>
          </select>
        </label>
        <span class="push row">
          <CopyButton text={() => lines.map(textOf).join("\n")} label="Copy the log" />
          <Button small look="quiet" icon="download" onClick={() => attempt(() => download(id))}>
            Download as JSON
          </Button>
        </span>
      </div>
      {lines.length === 0 ? (
        <Empty title={level === "info" ? "Nothing has happened yet" : "Nothing of that sort"}>
          <p>
            {level === "info"
              ? "Lines show up here as the job goes on."
              : "There are no such lines. Choose another level to see the rest."}
          </p>
        </Empty>
      ) : (
        <Lines lines={lines} />
      )}
    </div>
  );
}

function pageAfter(id: string, after: number, signal?: AbortSignal): Promise<Schemas["LogBody"]> {
  return get("/v2/workflows/executions/{execution_id}/logs", {
    path: { execution_id: id },
    query: { after, limit: PAGE },
    ...(signal ? { signal } : {}),
  });
}

/** All lines from the first on, as the server would write them on one page. */
async function download(id: string): Promise<void> {
  const parts = [`{"execution_id":${JSON.stringify(id)},"lines":[`];
  for (let after: number | null = 0; after !== null; ) {
    const page: Schemas["LogBody"] = await pageAfter(id, after);
    for (const line of page.lines) {
      parts.push(parts.length === 1 ? "\n" : ",\n", JSON.stringify(line));
    }
    after = page.lines.length === 0 ? null : page.next_after;
  }
  parts.push('\n],"next_after":null}\n');
  save(new Blob(parts, { type: "application/json" }), `job-${id}.json`);
}

function save(content: Blob, filename: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = filename;
  link.click();
  // The browser has taken it by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

function textOf(line: Line): string {
  return `${line.timestamp} ${line.level} ${line.message}`;
}

function Lines({ lines }: { lines: readonly Line[] }) {
  const box = useRef<HTMLOListElement>(null);
  const follows = useRef(true);
  const [most, setMost] = useState(SHOWN_AT_ONCE);
  const shown = lines.slice(-most);
  useEffect(() => {
    const element = box.current;
    if (element !== null && follows.current) element.scrollTop = element.scrollHeight;
  }, [lines]);
  return (
    <>
      {shown.length < lines.length && (
        <Button small onClick={() => setMost(most + SHOWN_AT_ONCE)}>
          Show earlier lines ({count(lines.length - shown.length)})
        </Button>
      )}
      <ol
        ref={box}
        class="job-log"
        aria-label="Log"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it is scrolled with the keyboard
        tabIndex={0}
        onScroll={({ currentTarget: each }) => {
          follows.current = each.scrollHeight - each.scrollTop - each.clientHeight < 24;
        }}
      >
        {shown.map((line) => (
          <li key={line.number} class={line.level}>
            <time dateTime={line.timestamp}>{clock(line.timestamp)}</time>
            {line.level !== "info" && <strong>{line.level}</strong>}
            <span>{line.message}</span>
          </li>
        ))}
      </ol>
    </>
  );
}

const time = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  fractionalSecondDigits: 1,
  hourCycle: "h23",
});

function clock(timestamp: string): string {
  return time.format(new Date(timestamp));
}
