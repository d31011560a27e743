/** Keep a workflow in the library, with the values that were set. */

import { useState } from "preact/hooks";
import { ApiError, post, put } from "../../api/client";
import { asApiError } from "../../live/resource";
import { go, href } from "../../router";
import { FormDialog } from "../../ui/dialogs";
import { Field } from "../../ui/parts";
import { say } from "../../ui/toasts";
import type { Wish } from "./checks";
import type { Filled } from "./sources";

interface SaveDialogProps {
  filled: Filled;
  wish: Wish;
  close: () => void;
}

export function SaveDialog({ filled, wish, close }: SaveDialogProps) {
  const [name, setName] = useState(asName(filled.suggestion));
  const [description, setDescription] = useState(filled.description);
  const [fault, setFault] = useState<string | null>(null);
  const kept = asName(name);
  const save = async () => {
    setFault(null);
    if (kept === "") {
      setFault("A name needs a letter or a digit.");
      return;
    }
    try {
      const saved = await put("/v1/workflows/{name}", {
        path: { name: kept },
        body: {
          workflow: await withValues(wish),
          ...(filled.declared.length === 0 ? {} : { inputs: inputsWith(filled, wish) }),
          ...(description.trim() === "" ? {} : { description: description.trim() }),
          ...(await pictureFor(filled)),
        },
      });
      say(`Saved as ${saved.name}, version ${saved.version}.`);
      close();
      go(href(["run", "library", `${saved.name}@${saved.version}`]));
    } catch (error) {
      setFault(asApiError(error).message);
    }
  };
  return (
    <FormDialog
      title="Save to library"
      close={close}
      act="Save"
      icon="save"
      submit={save}
      disabled={name.trim() === ""}
    >
      <Field
        label="Name"
        hint={
          kept === name || kept === ""
            ? "A name that is there gets a new version."
            : `It is kept as ${kept}.`
        }
        error={fault}
      >
        {(attributes) => (
          <input
            {...attributes}
            required
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        )}
      </Field>
      <Field label="Description">
        {(attributes) => (
          <textarea
            {...attributes}
            value={description}
            onInput={(event) => setDescription(event.currentTarget.value)}
          />
        )}
      </Field>
    </FormDialog>
  );
}

/** The server puts the values in: it knows what each of them means. What cannot be is not saved. */
async function withValues(wish: Wish): Promise<Record<string, never>> {
  const report = await post("/v1/workflows/validate", { body: wish });
  const wrong = report.findings.find((each) => each.severity === "error");
  if (wrong !== undefined) throw new ApiError(422, wrong.error_code, wrong.message);
  return (report.workflow ?? wish.workflow ?? {}) as Record<string, never>;
}

/** Declared inputs as they were, each with what was set as its default. */
function inputsWith(filled: Filled, wish: Wish): Record<string, never> {
  const entries = filled.declared.map(({ name, ...rest }) => {
    const set = (wish.input_params as Record<string, unknown>)[name];
    const known = Object.entries(rest).filter(([, value]) => value !== null);
    return [name, { ...Object.fromEntries(known), ...(set === undefined ? {} : { default: set }) }];
  });
  return Object.fromEntries(entries) as Record<string, never>;
}

const SIDE = 512;

/** What it makes, small, as the library takes it: a PNG in Base64. */
async function pictureFor({ preview }: Filled): Promise<{ preview?: string }> {
  if (preview === null) return {};
  try {
    const picture = new Image();
    picture.src = preview;
    await picture.decode();
    const scale = Math.min(1, SIDE / Math.max(picture.width, picture.height));
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(1, Math.round(picture.width * scale));
    canvas.height = Math.max(1, Math.round(picture.height * scale));
    canvas.getContext("2d")?.drawImage(picture, 0, 0, canvas.width, canvas.height);
    return { preview: canvas.toDataURL("image/png").replace(/^data:[^,]*,/, "") };
  } catch {
    return {}; // a workflow without a picture is one too
  }
}

function asName(text: string): string {
  return text
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, "-")
    .replace(/^[._-]+|-+$/g, "")
    .slice(0, 60);
}
