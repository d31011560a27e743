/** The fields of a form: what people change most, then everything by node. */

import { useEffect, useId, useState } from "preact/hooks";
import { ControlField } from "./controls";
import {
  type Control,
  type Finding,
  type FormModel,
  faultOf,
  hasFault,
  type NodeGroup,
} from "./form_model";

/** What every field of a form needs to know. */
export interface FormShown {
  values: ReadonlyMap<string, unknown>;
  byPlace: ReadonlyMap<string, Finding[]>;
  /** Seeds that stay. */
  fixed: ReadonlySet<string>;
  set: (control: Control, value: unknown) => void;
  setFixed: (target: string, isFixed: boolean) => void;
  /** What is typed is no value yet, or a file is on its way. */
  tell: (id: string, isReady: boolean) => void;
}

/** From so many nodes on each is opened by itself: the page stays quick. */
const MANY_NODES = 12;

export function Settings({ model, form }: { model: FormModel; form: FormShown }) {
  const groups = model.groups.filter((each) => each.controls.length > 0);
  const [isOpen, setOpen] = useState(model.main.length === 0);
  const isShown = new Set(model.main.flatMap((each) => [each.target, ...each.places]));
  // A fault that nobody sees cannot be mended.
  const hasHidden = groups.some((group) =>
    group.controls.some((each) => !isShown.has(each.target) && hasFault(each, form.byPlace)),
  );
  useEffect(() => {
    if (hasHidden) setOpen(true);
  }, [hasHidden]);
  return (
    <form class="stack run-form" onSubmit={(event) => event.preventDefault()}>
      {model.main.length > 0 && (
        <section class="card padded run-main" aria-label="Main settings">
          {model.main.map((each) => (
            <Shown key={each.target} control={each} form={form} />
          ))}
        </section>
      )}
      {groups.length > 0 && (
        <details
          class="card padded"
          open={isOpen}
          onToggle={(event) => setOpen(event.currentTarget.open)}
        >
          <summary>All settings ({groups.length} nodes)</summary>
          {isOpen && (
            <div class="stack run-groups">
              {groups.map((group) => (
                <Group
                  key={group.nodeId}
                  group={group}
                  form={form}
                  isFolded={groups.length > MANY_NODES}
                />
              ))}
            </div>
          )}
        </details>
      )}
      {model.main.length === 0 && groups.length === 0 && (
        <p class="soft">There is nothing to set in it: just run it.</p>
      )}
    </form>
  );
}

interface GroupProps {
  group: NodeGroup;
  form: FormShown;
  isFolded: boolean;
}

function Group({ group, form, isFolded }: GroupProps) {
  const isWrong = group.controls.some((each) => hasFault(each, form.byPlace));
  const [isOpen, setOpen] = useState(!isFolded);
  useEffect(() => {
    if (isWrong) setOpen(true);
  }, [isWrong]);
  const title = (
    <>
      {group.title} <span class="soft small">{group.classType}</span>
    </>
  );
  const fields = (
    <div class="run-main">
      {group.controls.map((each) => (
        <Shown key={each.target} control={each} form={form} />
      ))}
    </div>
  );
  if (!isFolded) {
    return (
      <fieldset>
        <legend>{title}</legend>
        {fields}
      </fieldset>
    );
  }
  return (
    <details
      class="run-group"
      open={isOpen}
      onToggle={(event) => setOpen(event.currentTarget.open)}
    >
      <summary>{title}</summary>
      {isOpen && fields}
    </details>
  );
}

function Shown({ control, form }: { control: Control; form: FormShown }) {
  const { target } = control;
  const id = useId(); // a control may be there twice
  return (
    <ControlField
      control={control}
      value={form.values.has(target) ? form.values.get(target) : control.value}
      change={(value) => form.set(control, value)}
      fault={faultOf(control, form.byPlace)}
      isRandom={!form.fixed.has(target)}
      setRandom={(isRandom) => form.setFixed(target, !isRandom)}
      tell={(isReady) => form.tell(id, isReady)}
    />
  );
}
