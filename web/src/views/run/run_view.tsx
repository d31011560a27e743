/** A workflow as a form, with what it will take, and the button that runs it. */

import "./run.css";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ApiError } from "../../api/client";
import { may } from "../../boot";
import { asApiError, useResource } from "../../live/resource";
import { go, href } from "../../router";
import { Button, ErrorBox, LinkButton, Loading, Notice } from "../../ui/parts";
import { say } from "../../ui/toasts";
import type { ViewProps } from "../../views";
import { findingsOf, useChecks } from "./checks";
import { type Options, useDraft } from "./draft";
import {
  allControls,
  type Control,
  type Finding,
  findingsByPlace,
  hasFault,
  makeModel,
} from "./form_model";
import { type FormShown, Settings } from "./form_parts";
import { RunBar } from "./run_bar";
import { rollSeeds, runMany, runOnce, seedsOf, wishOf } from "./running";
import { SaveDialog } from "./save_dialog";
import { type Filled, loadSource } from "./sources";

export default function RunView({ parts, query }: ViewProps) {
  const key = parts.join("/");
  // A form does not change behind somebody who fills it in.
  const source = useResource(key, (signal) => loadSource(parts, signal), { isFixed: true });
  const preview = source.data?.preview ?? null;
  useEffect(
    () => () => {
      if (preview?.startsWith("blob:")) URL.revokeObjectURL(preview);
    },
    [preview],
  );
  if (source.data !== null) {
    return <Sheet key={key} of={key} filled={source.data} query={query} />;
  }
  if (source.error === null) return <Loading lines={8} />;
  return (
    <>
      <header>
        <h1>Run a workflow</h1>
      </header>
      <ErrorBox
        error={source.error}
        {...(isWorthTrying(source.error) ? { retry: source.reload } : {})}
      />
      <div>
        <LinkButton href="#/" icon="left">
          Choose another
        </LinkButton>
      </div>
    </>
  );
}

/** What was refused once is refused again. */
function isWorthTrying({ status }: ApiError): boolean {
  return status <= 0 || status >= 500;
}

interface SheetProps {
  of: string;
  filled: Filled;
  query: URLSearchParams;
}

function Sheet({ of, filled, query }: SheetProps) {
  const model = useMemo(() => makeModel(filled.form.nodes, filled.declared), [filled]);
  const controls = useMemo(() => allControls(model), [model]);
  const seeds = useMemo(() => seedsOf(model), [model]);
  const draft = useDraft(of, query, seeds, filled.keepsSeeds);
  const { values, fixed } = draft;
  const [refused, setRefused] = useState<Finding[]>([]);
  const [unready, setUnready] = useState<ReadonlySet<string>>(new Set());
  const [isSaving, setSaving] = useState(false);

  const wish = useMemo(() => wishOf(filled, controls, values), [filled, controls, values]);
  const checked = useChecks(wish);
  const findings = refused.length > 0 ? refused : (checked.report?.findings ?? []);
  const { byPlace, others } = findingsByPlace(findings);
  // What belongs to a field that is not shown is told beside the button.
  const places = new Set(controls.flatMap((each) => [each.target, ...each.places]));
  const homeless = [...byPlace].filter(([place]) => !places.has(place)).flatMap(([, each]) => each);
  const wrong = controls.filter((each) => hasFault(each, byPlace));
  const obstacle = obstacleOf(unready.size, checked.error?.status ?? null, findings);

  const form: FormShown = {
    values,
    byPlace,
    fixed,
    set: (control: Control, value: unknown) => {
      setRefused([]);
      draft.set(control, value);
    },
    setFixed: draft.setFixed,
    tell: (id: string, isReady: boolean) =>
      setUnready((old) => {
        if (old.has(id) === !isReady) return old;
        const next = new Set(old);
        if (isReady) next.delete(id);
        else next.add(id);
        return next;
      }),
  };

  const isUnderWay = useRef(false);
  const run = async (chosen: Options) => {
    if (isUnderWay.current || obstacle !== null) return;
    isUnderWay.current = true;
    draft.flush();
    try {
      if (chosen.times > 1) {
        const loose = seeds.filter((each) => !fixed.has(each.target));
        go(href(["batches", await runMany(wish, filled.title, loose, chosen)]));
      } else {
        const rolled = wishOf(filled, controls, rollSeeds(seeds, fixed, values));
        go(href(["jobs", await runOnce(rolled, chosen)]));
      }
    } catch (error) {
      const told = asApiError(error);
      setRefused(findingsOf(told));
      say(told.message, "error");
    } finally {
      isUnderWay.current = false;
    }
  };
  useRunKey(() => run(draft.options));

  return (
    <>
      <header>
        <h1>{filled.title}</h1>
        <span class="push row">
          {values.size > 0 && (
            <Button look="quiet" icon="retry" onClick={draft.reset}>
              Reset
            </Button>
          )}
          {may("library:write") && (
            <Button icon="save" onClick={() => setSaving(true)} disabled={obstacle !== null}>
              Save to library
            </Button>
          )}
        </span>
      </header>
      {filled.description !== "" && <p class="soft run-about">{filled.description}</p>}
      {filled.form.notes.map((each, at) => (
        <Notice key={`${each.code}${at}`} look="warning">
          {each.message}
        </Notice>
      ))}
      {draft.isLong && (
        <Notice>
          Your texts are too long for an address: a link to this form does not have them. They stay
          in this tab.
        </Notice>
      )}
      <div class="run-sheet">
        <Settings model={model} form={form} />
        <div class="run-side">
          {filled.preview !== null && (
            <img class="run-preview" src={filled.preview} alt="What it makes" />
          )}
          <RunBar
            checked={checked}
            others={[...others, ...homeless]}
            wrong={wrong.length}
            obstacle={obstacle}
            seeds={
              seeds.length === 0
                ? "none"
                : seeds.every((each) => fixed.has(each.target))
                  ? "fixed"
                  : "new"
            }
            run={run}
            options={draft.options}
            setOptions={draft.setOptions}
          />
        </div>
      </div>
      {isSaving && <SaveDialog filled={filled} wish={wish} close={() => setSaving(false)} />}
    </>
  );
}

/** Why it cannot be run as it is, or null. */
function obstacleOf(
  unready: number,
  status: number | null,
  findings: readonly Finding[],
): string | null {
  if (!may("jobs:write")) return "Your key may not run jobs.";
  if (unready > 0) return "A field is not ready: see what is said there.";
  if (status !== null && status >= 400 && status < 500) return "The server refuses it: see above.";
  return findings.some((each) => each.severity === "error") ? "It is not right yet." : null;
}

/** Ctrl + Enter, wherever one types; not in a dialog, where it would be something else. */
function useRunKey(run: () => Promise<void>): void {
  const latest = useRef(run);
  latest.current = run;
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.repeat) return;
      if (document.querySelector("dialog[open]") !== null) return;
      event.preventDefault();
      void latest.current();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}
