/** A workflow as a form, with what it will take, and the button that runs it. */

import "./run.css";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { parseExact } from "../../api/exact_json";
import { boot, may } from "../../boot";
import { asApiError, useResource } from "../../live/resource";
import { go, href, setQuery } from "../../router";
import { Button, ErrorBox, LinkButton, Loading, Notice } from "../../ui/parts";
import { say } from "../../ui/toasts";
import type { ViewProps } from "../../views";
import { findingsOf, useChecks } from "./checks";
import { ControlField } from "./controls";
import { useFileDrop } from "./drop";
import {
  allControls,
  type Control,
  type Finding,
  faultOf,
  findingsByPlace,
  isSame,
  makeModel,
  VALUE_PREFIX,
  valuesFromQuery,
  valuesToQuery,
} from "./form_model";
import { type Options, RunBar } from "./run_bar";
import { rollSeeds, runMany, runOnce, seedsOf, wishOf } from "./running";
import { SaveDialog } from "./save_dialog";
import { type Filled, loadSource } from "./sources";

export default function RunView({ parts, query }: ViewProps) {
  const key = parts.join("/");
  const source = useResource(key, (signal) => loadSource(parts, signal));
  const drop = useFileDrop();
  if (source.error) {
    return (
      <>
        <header>
          <h1>Run a workflow</h1>
        </header>
        <ErrorBox error={source.error} retry={source.reload} />
        <div>
          <LinkButton href="#/" icon="left">
            Choose another
          </LinkButton>
        </div>
      </>
    );
  }
  if (source.data === null) return <Loading lines={8} />;
  return (
    <>
      {drop.isOver && <p class="run-over">Drop it to open it</p>}
      <Sheet key={key} filled={source.data} query={query} />
    </>
  );
}

function Sheet({ filled, query }: { filled: Filled; query: URLSearchParams }) {
  const model = useMemo(() => makeModel(filled.form.nodes, filled.declared), [filled]);
  const controls = useMemo(() => allControls(model), [model]);
  const [values, setValues] = useState(() => valuesFromQuery(query, parseExact));
  const seeds = useMemo(() => seedsOf(model), [model]);
  const [fixed, setFixed] = useState<ReadonlySet<string>>(
    () =>
      new Set(
        seeds
          .filter((each) => filled.keepsSeeds || values.has(each.target))
          .map((each) => each.target),
      ),
  );
  const [options, setOptions] = useState<Options>({ priority: 5, times: 1, name: "" });
  const [refused, setRefused] = useState<Finding[]>([]);
  const [isSaving, setSaving] = useState(false);
  const [isOpen, setOpen] = useState(model.main.length === 0);

  useEffect(() => keepInUrl(values, query), [values]);

  const wish = useMemo(() => wishOf(filled, controls, values), [filled, controls, values]);
  const checked = useChecks(wish);
  const findings = refused.length > 0 ? refused : (checked.report?.findings ?? []);
  const { byPlace, others } = findingsByPlace(findings);
  // What belongs to a field that is not shown is told beside the button.
  const places = new Set(controls.flatMap((each) => [each.target, ...each.places]));
  const homeless = [...byPlace].filter(([place]) => !places.has(place)).flatMap(([, each]) => each);

  // A fault that nobody sees cannot be mended.
  const shownPlaces = new Set(model.main.flatMap((each) => [each.target, ...each.places]));
  const hasHidden = [...byPlace].some(
    ([place, each]) => !shownPlaces.has(place) && each.some(({ severity }) => severity === "error"),
  );
  useEffect(() => {
    if (hasHidden) setOpen(true);
  }, [hasHidden]);

  const set = (control: Control, value: unknown) => {
    setRefused([]);
    setValues((old) => {
      const next = new Map(old);
      if (isSame(value, control.value)) next.delete(control.target);
      else next.set(control.target, value);
      return next;
    });
  };
  const isUnderWay = useRef(false);
  const run = async (chosen: Options) => {
    if (isUnderWay.current) return; // the keys are as quick as the button is patient
    isUnderWay.current = true;
    const rolled = rollSeeds(seeds, fixed, values);
    try {
      if (chosen.times > 1) {
        go(
          href([
            "batches",
            await runMany(wishOf(filled, controls, values), filled.title, seeds, chosen),
          ]),
        );
        return;
      }
      go(href(["jobs", await runOnce(wishOf(filled, controls, rolled), chosen)]));
    } catch (error) {
      const told = asApiError(error);
      setRefused(findingsOf(told));
      say(told.message, "error");
    } finally {
      isUnderWay.current = false;
    }
  };
  const latest = useRef(run);
  latest.current = run;
  const faults = checked.report?.errors ?? 0;
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && faults === 0) {
        event.preventDefault();
        void latest.current(options);
      }
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [options, faults]);

  const shared = {
    values,
    set,
    byPlace,
    fixed,
    setFixed: (target: string, isFixed: boolean) => {
      const next = new Set(fixed);
      if (isFixed) next.add(target);
      else next.delete(target);
      setFixed(next);
    },
  };
  const settings = model.groups.filter((each) => each.controls.length > 0);
  return (
    <>
      <header>
        <h1>{filled.title}</h1>
        <span class="push row">
          {values.size > 0 && (
            <Button look="quiet" icon="retry" onClick={() => setValues(new Map())}>
              As it was
            </Button>
          )}
          {may("library:write") && (
            <Button icon="save" onClick={() => setSaving(true)}>
              Save to library
            </Button>
          )}
          {boot.editor && (
            <LinkButton href="/editor/" icon="external" look="quiet">
              Editor
            </LinkButton>
          )}
        </span>
      </header>
      {filled.description !== "" && <p class="soft run-about">{filled.description}</p>}
      {filled.form.notes.map((each, at) => (
        <Notice key={`${each.code}${at}`} look="warning">
          {each.message}
        </Notice>
      ))}
      <div class="run-sheet">
        <form class="stack run-form" onSubmit={(event) => event.preventDefault()}>
          {model.main.length > 0 && (
            <section class="card padded run-main" aria-label="Main settings">
              {model.main.map((each) => (
                <Shown key={each.target} control={each} {...shared} />
              ))}
            </section>
          )}
          {settings.length > 0 && (
            <details
              class="card padded"
              open={isOpen}
              onToggle={(event) => setOpen(event.currentTarget.open)}
            >
              <summary>All settings ({settings.length} nodes)</summary>
              <div class="stack run-groups">
                {settings.map((group) => (
                  <fieldset key={group.nodeId}>
                    <legend>
                      {group.title} <span class="soft small">{group.classType}</span>
                    </legend>
                    <div class="run-main">
                      {group.controls.map((each) => (
                        <Shown key={each.target} control={each} {...shared} />
                      ))}
                    </div>
                  </fieldset>
                ))}
              </div>
            </details>
          )}
          {controls.length === 0 && <p class="soft">There is nothing to set in it: just run it.</p>}
        </form>
        <div class="run-side">
          {filled.preview !== null && (
            <img class="run-preview" src={filled.preview} alt="What it makes" />
          )}
          <RunBar
            checked={checked}
            others={[...others, ...homeless]}
            hasSeeds={seeds.length > 0}
            run={run}
            options={options}
            setOptions={setOptions}
          />
        </div>
      </div>
      {isSaving && (
        <SaveDialog
          suggestion={filled.suggestion}
          workflow={filled.form.workflow}
          params={wish.input_params}
          close={() => setSaving(false)}
        />
      )}
    </>
  );
}

interface ShownProps {
  control: Control;
  values: ReadonlyMap<string, unknown>;
  set: (control: Control, value: unknown) => void;
  byPlace: ReadonlyMap<string, Finding[]>;
  fixed: ReadonlySet<string>;
  setFixed: (target: string, isFixed: boolean) => void;
}

function Shown({ control, values, set, byPlace, fixed, setFixed }: ShownProps) {
  const { target } = control;
  return (
    <ControlField
      control={control}
      value={values.has(target) ? values.get(target) : control.value}
      change={(value) => set(control, value)}
      fault={faultOf(control, byPlace)}
      isRandom={!fixed.has(target)}
      setRandom={(isRandom) => setFixed(target, !isRandom)}
    />
  );
}

function keepInUrl(values: ReadonlyMap<string, unknown>, query: URLSearchParams): void {
  const changes: Record<string, string | null> = {};
  for (const name of query.keys()) if (name.startsWith(VALUE_PREFIX)) changes[name] = null;
  setQuery({ ...changes, ...valuesToQuery(values).query });
}
