/** One control of the form, by what it sets. */

import { useEffect, useId, useState } from "preact/hooks";
import { Button, Field } from "../../ui/parts";
import { FileControl } from "./file_control";
import { type Control, randomSeed, readNumber, showNumber, slides } from "./form_model";

export interface ControlProps {
  control: Control;
  value: unknown;
  change: (value: unknown) => void;
  fault: string | null;
  /** Of seeds: a new one with every run. */
  isRandom: boolean;
  setRandom: (isRandom: boolean) => void;
  /** Whether what it shows is a value: not while something else is typed, or a file is on its way. */
  tell: (isReady: boolean) => void;
}

export function ControlField(props: ControlProps) {
  const { control } = props;
  if (control.kind === "seed") return <SeedField {...props} />;
  if (control.kind === "file") return <FileControl {...props} />;
  if (control.kind === "whole" || control.kind === "number") return <NumberField {...props} />;
  if (control.kind === "colour") return <ColourField {...props} />;
  if (control.kind === "switch") return <SwitchField {...props} />;
  if (control.kind === "choice") return <ChoiceField {...props} />;
  return <TextField {...props} />;
}

type FieldHint = { hint?: string };

function hintOf(control: Control): FieldHint {
  return control.hint === null ? {} : { hint: control.hint };
}

/** A control that goes away stands in nobody's way. */
export function useReadiness(isReady: boolean, tell: (isReady: boolean) => void): void {
  useEffect(() => {
    tell(isReady);
    return () => tell(true);
  }, [isReady]);
}

/** What is typed stays as it is until it is a value; what is no value is said to be none. */
function useTyped({ value, change, tell }: ControlProps, isWhole: boolean) {
  const [typed, setTyped] = useState<string | null>(null);
  const [fault, setFault] = useState<string | null>(null);
  useReadiness(fault === null, tell);
  useEffect(() => {
    // Set from elsewhere: a slider, the dice, a link.
    setTyped((old) => {
      if (old === null) return old;
      const read = readNumber(old, isWhole);
      return "value" in read && showNumber(read.value) === showNumber(value) ? old : null;
    });
    setFault(null);
  }, [showNumber(value)]);
  const type = (text: string) => {
    setTyped(text);
    const read = readNumber(text, isWhole);
    if ("fault" in read) setFault(read.fault);
    else {
      setFault(null);
      change(read.value);
    }
  };
  return { shown: typed ?? showNumber(value), fault, type };
}

function NumberField(props: ControlProps) {
  const { control, value, change, fault } = props;
  const isWhole = control.kind === "whole";
  const typed = useTyped(props, isWhole);
  const hasSlider = slides(control);
  return (
    <Field label={control.label} error={typed.fault ?? fault} {...hintOf(control)}>
      {(attributes) => (
        <div class="run-number">
          {hasSlider && (
            <input
              type="range"
              aria-label={`${control.label}, slider`}
              min={control.minimum ?? 0}
              max={control.maximum ?? 1}
              step={control.step ?? (isWhole ? 1 : 0.01)}
              value={Number(showNumber(value))}
              onInput={(event) => change(Number(event.currentTarget.value))}
            />
          )}
          <input
            {...attributes}
            class="number"
            inputMode={isWhole ? "numeric" : "decimal"}
            value={typed.shown}
            onInput={(event) => typed.type(event.currentTarget.value)}
          />
        </div>
      )}
    </Field>
  );
}

function SeedField(props: ControlProps) {
  const { control, change, fault, isRandom, setRandom } = props;
  const typed = useTyped(props, true);
  return (
    <Field label={control.label} error={typed.fault ?? fault} {...hintOf(control)}>
      {(attributes) => (
        <div class="run-seed">
          <input
            {...attributes}
            class="number"
            inputMode="numeric"
            value={typed.shown}
            onInput={(event) => {
              setRandom(false);
              typed.type(event.currentTarget.value);
            }}
          />
          <Button
            icon="dice"
            label={`Another ${control.label}`}
            onClick={() => {
              setRandom(false);
              change(randomSeed(control));
            }}
          />
          <label>
            <input type="checkbox" checked={isRandom} onChange={() => setRandom(!isRandom)} />
            new with every run
          </label>
        </div>
      )}
    </Field>
  );
}

/** A number to the workflow, a colour to people. */
function ColourField({ control, value, change, fault }: ControlProps) {
  const shown = `#${Math.max(0, Number(value) || 0)
    .toString(16)
    .padStart(6, "0")
    .slice(-6)}`;
  return (
    <Field label={control.label} error={fault} {...hintOf(control)}>
      {(attributes) => (
        <div class="run-colour">
          <input
            {...attributes}
            type="color"
            value={shown}
            onInput={(event) => change(Number.parseInt(event.currentTarget.value.slice(1), 16))}
          />
          <code>{shown}</code>
        </div>
      )}
    </Field>
  );
}

function SwitchField({ control, value, change, fault }: ControlProps) {
  const id = useId();
  return (
    <div class={fault ? "field wrong" : "field"}>
      <label class="run-switch">
        <input
          type="checkbox"
          checked={value === true}
          aria-describedby={fault ? id : undefined}
          onChange={(event) => change(event.currentTarget.checked)}
        />
        {control.label}
      </label>
      {fault && (
        <p class="fault" id={id}>
          {fault}
        </p>
      )}
    </div>
  );
}

/** From so many choices on one types to find. */
const MANY = 30;

function ChoiceField(props: ControlProps) {
  const { control, value, change, fault } = props;
  const list = useId();
  const at = control.choices.indexOf(value as string);
  if (control.choices.length > MANY) {
    return (
      <Field label={control.label} error={fault} {...hintOf(control)}>
        {(attributes) => (
          <>
            <input
              {...attributes}
              list={list}
              value={String(value ?? "")}
              onInput={(event) => {
                const text = event.currentTarget.value;
                change(control.choices.find((each) => String(each) === text) ?? text);
              }}
            />
            <datalist id={list}>
              {control.choices.map((each) => (
                <option key={String(each)} value={String(each)} />
              ))}
            </datalist>
          </>
        )}
      </Field>
    );
  }
  return (
    <Field label={control.label} error={fault} {...hintOf(control)}>
      {(attributes) => (
        <select
          {...attributes}
          value={at}
          onChange={(event) => change(control.choices[Number(event.currentTarget.value)])}
        >
          {at < 0 && <option value={-1}>{String(value ?? "")}</option>}
          {control.choices.map((each, index) => (
            <option key={String(each)} value={index}>
              {String(each)}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

function TextField({ control, value, change, fault, tell }: ControlProps) {
  const [wrong, setWrong] = useState<string | null>(null);
  useReadiness(wrong === null, tell);
  const isJson = control.kind === "json";
  const [typed, setTyped] = useState<string | null>(null);
  const shown = typed ?? (isJson ? JSON.stringify(value) : String(value ?? ""));
  const type = (text: string) => {
    if (!isJson) {
      change(text);
      return;
    }
    setTyped(text);
    try {
      change(JSON.parse(text));
      setWrong(null);
    } catch {
      setWrong("This has to be JSON.");
    }
  };
  return (
    <Field label={control.label} error={wrong ?? fault} {...hintOf(control)}>
      {(attributes) =>
        control.kind === "lines" || isJson ? (
          <textarea
            {...attributes}
            rows={control.kind === "lines" ? 3 : 2}
            value={shown}
            onInput={(event) => type(event.currentTarget.value)}
          />
        ) : (
          <input
            {...attributes}
            value={shown}
            onInput={(event) => type(event.currentTarget.value)}
          />
        )
      }
    </Field>
  );
}
