/** Keep a workflow in the library, with the values that were set. */

import { useState } from "preact/hooks";
import { post, put } from "../../api/client";
import { asApiError } from "../../live/resource";
import { go, href } from "../../router";
import { Button, Dialog, Field } from "../../ui/parts";
import { say } from "../../ui/toasts";

interface SaveDialogProps {
  suggestion: string;
  workflow: Record<string, never>;
  params: Record<string, unknown>;
  close: () => void;
}

export function SaveDialog({ suggestion, workflow, params, close }: SaveDialogProps) {
  const [name, setName] = useState(asName(suggestion));
  const [description, setDescription] = useState("");
  const [fault, setFault] = useState<string | null>(null);
  const save = async () => {
    setFault(null);
    try {
      const kept = Object.keys(params).length === 0 ? workflow : await withValues(workflow, params);
      const saved = await put("/v1/workflows/{name}", {
        path: { name: name.trim() },
        body: {
          workflow: kept,
          ...(description.trim() === "" ? {} : { description: description.trim() }),
        },
      });
      say(`Saved as ${saved.name}, version ${saved.version}.`);
      go(href(["run", "library", saved.name]));
      close();
    } catch (error) {
      setFault(asApiError(error).message);
    }
  };
  return (
    <Dialog title="Save to library" close={close}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        <Field
          label="Name"
          hint="Small letters, digits and hyphens. A name that is there gets a new version."
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
        <div class="row">
          <Button look="main" icon="save" onClick={save} disabled={name.trim() === ""}>
            Save
          </Button>
          <Button onClick={close}>Leave it</Button>
        </div>
      </form>
    </Dialog>
  );
}

/** The server puts the values in: it knows what each of them means. */
async function withValues(
  workflow: Record<string, never>,
  params: Record<string, unknown>,
): Promise<Record<string, never>> {
  const body = { workflow, input_params: params as Record<string, never> };
  const report = await post("/v1/workflows/validate", { body });
  return (report.workflow as Record<string, never> | null) ?? workflow;
}

function asName(text: string): string {
  return text
    .toLowerCase()
    .replace(/[^a-z0-9_-]+/g, "-")
    .replace(/^-+|-+$/g, "")
    .slice(0, 60);
}
