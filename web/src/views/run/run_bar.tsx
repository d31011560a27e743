/** Beside the form: how long it will take, what is wrong, and the button. */

import { useState } from "preact/hooks";
import type { Schemas } from "../../api/client";
import { may } from "../../boot";
import { duration, money, plural } from "../../ui/format";
import { Button, ErrorBox, Field, Notice } from "../../ui/parts";
import type { Checked } from "./checks";
import type { Finding } from "./form_model";

export interface Options {
  priority: number;
  times: number;
  name: string;
}

interface RunBarProps {
  checked: Checked;
  /** Findings that belong to no field. */
  others: readonly Finding[];
  hasSeeds: boolean;
  run: (options: Options) => Promise<void>;
  options: Options;
  setOptions: (options: Options) => void;
}

export const MOST_TIMES = 64;

export function RunBar({ checked, others, hasSeeds, run, options, setOptions }: RunBarProps) {
  const { report, plan, error } = checked;
  const faults = report?.errors ?? 0;
  const worrying = others.filter((each) => each.severity !== "hint");
  return (
    <aside class="run-bar card padded stack" aria-label="Run">
      {plan !== null && <Estimate plan={plan} />}
      {error && <ErrorBox error={error} />}
      {worrying.map((each, at) => (
        <Notice key={`${each.error_code}${at}`} look="warning">
          {each.message}
        </Notice>
      ))}
      {report?.valid && !report.workers.some((each) => each.can_run) && (
        <Notice look="warning">{lacking(report)}</Notice>
      )}
      <div class="run-act">
        <Button
          look="main"
          icon="play"
          onClick={() => run(options)}
          disabled={faults > 0 || !may("jobs:write")}
        >
          {options.times > 1 ? `Run ${options.times} times` : "Run"}
        </Button>
        <Times options={options} setOptions={setOptions} hasSeeds={hasSeeds} />
      </div>
      {faults > 0 && (
        <p class="small run-fault">
          {plural(faults, "value is", "values are")} not right yet: see the fields marked in red.
        </p>
      )}
      <More options={options} setOptions={setOptions} />
      <p class="small soft">Ctrl + Enter runs it too.</p>
    </aside>
  );
}

function Estimate({ plan }: { plan: Schemas["PlanBody"] }) {
  const { seconds, low, high, similar } = plan.duration;
  const isKnown = similar > 0 || plan.duration.source !== "heuristic";
  return (
    <dl class="facts" data-testid="estimate">
      <dt>Takes about</dt>
      <dd>
        {duration(seconds)}{" "}
        <span class="soft small">
          {isKnown
            ? `(${duration(low)} to ${duration(high)})`
            : "(a guess: nothing like it has run yet)"}
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
  hasSeeds: boolean;
}

function Times({ options, setOptions, hasSeeds }: TimesProps) {
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
      <span class="small soft">
        {hasSeeds
          ? "times, each with seeds of its own"
          : "times (it has no seed: all will be equal)"}
      </span>
    </label>
  );
}

function More({ options, setOptions }: Omit<TimesProps, "hasSeeds">) {
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
