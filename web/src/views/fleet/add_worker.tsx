/** Adding a ComfyUI by its address; also on the start view of a server that has none. */

import { useState } from "preact/hooks";
import { post } from "../../api/client";
import { asApiError } from "../../live/resource";
import { Button, CopyButton, Field } from "../../ui/parts";
import { say } from "../../ui/toasts";

const USUAL = "http://127.0.0.1:8188";

export function AddWorker({ added }: { added: () => void }) {
  const [url, setUrl] = useState(USUAL);
  const [fault, setFault] = useState<string | null>(null);
  const add = async () => {
    setFault(null);
    try {
      const worker = await post("/v1/workers", { body: { url: url.trim() } });
      say(`${worker.worker_id} is added. It takes jobs as soon as its node types are known.`);
      added();
    } catch (error) {
      setFault(asApiError(error).message);
    }
  };
  const command = `comfyrail workers add ${url.trim() || USUAL}`;
  return (
    <form
      class="stack"
      onSubmit={(event) => {
        event.preventDefault();
        void add();
      }}
    >
      <Field
        label="Address of a running ComfyUI"
        hint="As this server reaches it, not as your browser does."
        error={fault}
      >
        {(attributes) => (
          <input
            {...attributes}
            type="url"
            required
            value={url}
            onInput={(event) => setUrl(event.currentTarget.value)}
          />
        )}
      </Field>
      <div class="row">
        <Button look="main" icon="plus" onClick={add}>
          Add it
        </Button>
      </div>
      <p class="small soft">
        On a terminal: <code>{command}</code> <CopyButton text={command} label="Copy the command" />
        <br />
        ComfyUI is started with <code>python main.py</code> in its folder; with{" "}
        <code>--listen</code> other machines reach it. Workers in Docker, over SSH, on Kubernetes
        and others are added on the command line: <code>comfyrail workers add --help</code>
      </p>
    </form>
  );
}
