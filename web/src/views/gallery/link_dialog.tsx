/** A link to an output that anybody may follow for a while. */

import { useState } from "preact/hooks";
import { post, type Schemas } from "../../api/client";
import { copy } from "../../ui/clipboard";
import { Button, Dialog, Field, Notice, Time } from "../../ui/parts";
import { attempt } from "../../ui/toasts";

const TIMES = [
  { seconds: 3_600, name: "1 hour" },
  { seconds: 86_400, name: "1 day" },
  { seconds: 604_800, name: "7 days" },
] as const;

interface LinkDialogProps {
  output: Schemas["OutputBody"];
  close: () => void;
}

export function LinkDialog({ output, close }: LinkDialogProps) {
  const [seconds, setSeconds] = useState<number>(86_400);
  const [isSaved, setSaved] = useState(false);
  const [link, setLink] = useState<Schemas["LinkBody"] | null>(null);
  const make = async () => {
    const made = await attempt(() =>
      post("/v1/outputs/{output_id}/link", {
        path: { output_id: output.output_id },
        body: { expires_in: seconds, download: isSaved },
      }),
    );
    if (made !== null) setLink(made);
  };
  return (
    <Dialog title="Share link" close={close}>
      <p>Whoever has the link sees {output.filename}, without a key, until it expires.</p>
      <Field label="Good for">
        {(attributes) => (
          <select
            {...attributes}
            value={String(seconds)}
            onChange={(event) => {
              setSeconds(Number(event.currentTarget.value));
              setLink(null);
            }}
          >
            {TIMES.map((each) => (
              <option key={each.seconds} value={String(each.seconds)}>
                {each.name}
              </option>
            ))}
          </select>
        )}
      </Field>
      <label class="row">
        <input
          type="checkbox"
          checked={isSaved}
          onChange={(event) => {
            setSaved(event.currentTarget.checked);
            setLink(null);
          }}
        />
        Browsers save it instead of showing it
      </label>
      {link === null ? (
        <div class="row">
          <Button look="main" icon="link" onClick={make}>
            Make the link
          </Button>
        </div>
      ) : (
        <>
          <Field label="Link">
            {(attributes) => (
              <input
                {...attributes}
                readOnly
                value={link.url}
                onFocus={(event) => event.currentTarget.select()}
              />
            )}
          </Field>
          <Notice look="good">
            Good until <Time at={link.expires_at} />.
          </Notice>
          <div class="row">
            <Button look="main" icon="copy" onClick={() => copy(link.url)}>
              Copy the link
            </Button>
          </div>
        </>
      )}
    </Dialog>
  );
}
