/** Beside the form: how long it will take, what is wrong, and the button. */

import { useState } from "preact/hooks";
import type { Schemas } from "../../api/client";
import { may } from "../../boot";
import { duration, money, plural } from "../../ui/format";
import { Button, Dialog, ErrorBox, Field, Notice } from "../../ui/parts";
import { AddWorker } from "../fleet/add_worker";
import type { Checked } from "./checks";
import { MOST_TIMES, type Options } from "./draft";
import type { Finding } from "./form_model";

interface RunBarProps {
  checked: Checked;
  /** Findings that belong to no field. */
  others: readonly Finding[];
  /** Fields with a value that cannot be. */
  wrong: number;
  /** Why it cannot be run, or null. */
  obstacle: string | null;
  seeds: "none" | "fixed" | "new";
  run: (options: Options) => Promise<void>;
  options: Options;
  setOptions: (options: Options) => void;
}

export function RunBar(props: RunBarProps) {
  const { checked, others, wrong, obstacle, seeds, run, options, setOptions } = props;
  const { report, plan, error } = checked;
  const unknown = others.filter((each) => each.error_code === UNKNOWN_TYPE);
  const worrying = others.filter((each) => each.severity !== "hint" && !unknown.includes(each));
  return (
    <aside class="run-bar card padded stack" aria-label="Run">
      {plan !== null && <Estimate plan={plan} />}
      {error && <ErrorBox error={error} />}
      {unknown.length > 0 && <UnknownTypes findings={unknown} />}
      {worrying.map((each, at) => (
        <Notice key={`${each.error_code}${at}`} look="warning">
          {each.message}
        </Notice>
      ))}
      {report?.valid && !report.workers.some((each) => each.can_run) && (
        <Notice look="warning">{lacking(report)}</Notice>
      )}
      <div class="run-act">
        <Button look="main" icon="play" onClick={() => run(options)} disabled={obstacle !== null}>
          {options.times > 1 ? `Run ${options.times} times` : "Run"}
        </Button>
        <Times options={options} setOptions={setOptions} seeds={seeds} />
      </div>
      {obstacle !== null && (
        <p class="small run-fault">
          {wrong > 0
            ? `${plural(wrong, "value is", "values are")} not right yet: see the fields marked in red.`
            : obstacle}
        </p>
      )}
      <More options={options} setOptions={setOptions} />
      {obstacle === null && <p class="small soft run-keys">Ctrl + Enter runs it too.</p>}
    </aside>
  );
}

const UNKNOWN_TYPE = "UNKNOWN_NODE_TYPE";

/** Most often it only lacks the ComfyUI that has them. */
function UnknownTypes({ findings }: { findings: readonly Finding[] }) {
  const [isAdding, setAdding] = useState(false);
  const named = findings.map((each) => String(each.details?.class_type ?? each.node_id ?? ""));
  const types = [...new Set(named)];
  return (
    <Notice look="warning">
      <p>
        No worker has {types.length === 1 ? "this node type" : "these node types"}:{" "}
        {types.slice(0, 12).join(", ")}
        {types.length > 12 && ` and ${types.length - 12} more`}. A ComfyUI that has them can run it.
      </p>
      {may("fleet:write") && (
        <Button small icon="plus" onClick={() => setAdding(true)}>
          Add a ComfyUI
        </Button>
      )}
      {isAdding && (
        <Dialog title="Add a ComfyUI" close={() => setAdding(false)}>
          <AddWorker added={() => setAdding(false)} />
        </Dialog>
      )}
    </Notice>
  );
}

function Estimate({ plan }: { plan: Schemas["PlanBody"] }) {
  const { seconds, low, high, source } = plan.duration;
  return (
    <dl class="facts" data-testid="estimate">
      <dt>Takes about</dt>
      <dd>
        {duration(seconds)}{" "}
        <span class="soft small">
          {source !== "heuristic"
            ? `(${duration(low)} to ${duration(high)})`
            : "(a guess: too little like it has run)"}
        </span>
      </dd>
      <dt>Costs about</dt>
      <dd>{money(plan.cost)}</dd>
      <dt>Can run on</dt>
      <dd>
        {plan.workers
          .filter((each) => each.can_run)
          .map((each) => each.worker_id)
          .join(", ") || "no worker yet"}
      </dd>
    </dl>
  );
}

function lacking(report: Schemas["ValidationReport"]): string {
  const first = report.workers[0];
  if (first === undefined)
    return "There is no worker. The job is taken and waits until one is there.";
  const missing = [...first.missing_node_types, ...first.missing_models];
  return missing.length === 0
    ? "No worker can run this now. The job is taken and waits."
    : `No worker can run this now: ${first.worker_id} lacks ${missing.slice(0, 5).join(", ")}.`;
}

interface TimesProps {
  options: Options;
  setOptions: (options: Options) => void;
  seeds: RunBarProps["seeds"];
}

const TIMES_WORDS = {
  none: "times (it has no seed: all will be equal)",
  fixed: "times (its seeds stay: all will be equal)",
  new: "times, each with seeds of its own",
} as const;

function Times({ options, setOptions, seeds }: TimesProps) {
  return (
    <label class="run-times">
      <input
        type="number"
        class="input number"
        min={1}
        max={MOST_TIMES}
        value={options.times}
        onInput={(event) => {
          const times = Math.round(Number(event.currentTarget.value));
          setOptions({ ...options, times: Math.min(MOST_TIMES, Math.max(1, times || 1)) });
        }}
      />
      <span class="small soft">{TIMES_WORDS[seeds]}</span>
    </label>
  );
}

function More({ options, setOptions }: Omit<TimesProps, "seeds">) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Options</summary>
      <div class="stack run-options">
        <Field
          label={`Priority ${options.priority}`}
          hint="10 starts first, 1 when nothing else waits."
        >
          {(attributes) => (
            <input
              {...attributes}
              type="range"
              min={1}
              max={10}
              value={options.priority}
              onInput={(event) =>
                setOptions({ ...options, priority: Number(event.currentTarget.value) })
              }
            />
          )}
        </Field>
        {options.times > 1 && (
          <Field label="Name of the batch">
            {(attributes) => (
              <input
                {...attributes}
                maxLength={200}
                value={options.name}
                onInput={(event) => setOptions({ ...options, name: event.currentTarget.value })}
              />
            )}
          </Field>
        )}
      </div>
    </details>
  );
}
