/** One endpoint as a form: a new one, or one that is changed. */

import { useState } from "preact/hooks";
import { patch, post } from "../../api/client";
import { asApiError } from "../../live/resource";
import { FormDialog } from "../../ui/dialogs";
import { Field } from "../../ui/parts";
import type { Webhook } from "./endpoints_part";

const ENDS = ["execution.completed", "execution.failed", "execution.cancelled"];
const CHOICES: readonly { type: string; name: string }[] = [
  { type: "execution.queued", name: "A job is in the queue" },
  { type: "execution.started", name: "A job starts" },
  { type: "execution.completed", name: "A job has completed" },
  { type: "execution.failed", name: "A job has failed" },
  { type: "execution.cancelled", name: "A job was cancelled" },
  { type: "execution.output_ready", name: "A file is there" },
  { type: "worker.offline", name: "A worker is away" },
  { type: "system.storage_trouble", name: "The disk is in trouble" },
];

interface EndpointDialogProps {
  webhook: Webhook | null;
  close: () => void;
  /** With the secret of a new one. */
  done: (secret: string | null) => void;
}

export function EndpointDialog({ webhook, close, done }: EndpointDialogProps) {
  const [url, setUrl] = useState(webhook?.url ?? "");
  const [description, setDescription] = useState(webhook?.description ?? "");
  const [workflows, setWorkflows] = useState((webhook?.workflows ?? []).join(", "));
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set(webhook?.events ?? ENDS));
  const [fault, setFault] = useState<string | null>(null);
  const others = [...chosen].filter((each) => !CHOICES.some(({ type }) => type === each));
  const toggle = (type: string) => {
    const next = new Set(chosen);
    if (!next.delete(type)) next.add(type);
    setChosen(next);
  };
  const save = async () => {
    setFault(null);
    const body = {
      url: url.trim(),
      description: description.trim(),
      events: [...chosen],
      workflows: workflows
        .split(",")
        .map((each) => each.trim())
        .filter((each) => each !== ""),
    };
    try {
      if (webhook === null) {
        const made = await post("/v1/webhooks", { body });
        done(made.webhook.channel === "webhook" ? made.secret : null);
      } else {
        await patch("/v1/webhooks/{webhook_id}", {
          path: { webhook_id: webhook.webhook_id },
          body,
        });
        done(null);
      }
    } catch (error) {
      setFault(asApiError(error).message);
    }
  };
  return (
    <FormDialog
      title={webhook === null ? "Add an endpoint" : "Change the endpoint"}
      close={close}
      act={webhook === null ? "Add it" : "Save"}
      submit={save}
      disabled={url.trim() === ""}
    >
      <Field
        label="Address"
        hint="https://…, mailto:somebody@example.com or sms:+49…"
        error={fault}
      >
        {(attributes) => (
          <input
            {...attributes}
            required
            value={url}
            placeholder="https://example.com/hook"
            onInput={(event) => setUrl(event.currentTarget.value)}
          />
        )}
      </Field>
      <fieldset class="webhooks-events">
        <legend>Told when</legend>
        {CHOICES.map(({ type, name }) => (
          <label key={type}>
            <input type="checkbox" checked={chosen.has(type)} onChange={() => toggle(type)} />
            {name}
          </label>
        ))}
        {others.length > 0 && <p class="small soft">and {others.join(", ")}</p>}
        {chosen.size === 0 && <p class="small soft">None chosen: all events but loud ones.</p>}
      </fieldset>
      <Field
        label="Only of these workflows"
        hint="Names of the library, with commas. Empty: of all."
      >
        {(attributes) => (
          <input
            {...attributes}
            value={workflows}
            onInput={(event) => setWorkflows(event.currentTarget.value)}
          />
        )}
      </Field>
      <Field label="What it is for">
        {(attributes) => (
          <input
            {...attributes}
            value={description}
            maxLength={200}
            onInput={(event) => setDescription(event.currentTarget.value)}
          />
        )}
      </Field>
    </FormDialog>
  );
}
