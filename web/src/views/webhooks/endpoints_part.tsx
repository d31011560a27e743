/** The endpoints of the account: added, changed, tested, removed. */

import { useState } from "preact/hooks";
import { get, patch, post, remove, type Schemas } from "../../api/client";
import { may } from "../../boot";
import { useResource } from "../../live/resource";
import { href } from "../../router";
import { ConfirmDialog } from "../../ui/dialogs";
import {
  Button,
  CopyButton,
  Dialog,
  Empty,
  ErrorBox,
  Loading,
  Notice,
  Pill,
  Time,
} from "../../ui/parts";
import { attempt, say } from "../../ui/toasts";
import { EndpointDialog } from "./endpoint_dialog";

export type Webhook = Schemas["WebhookBody"];

export function EndpointsPart() {
  const list = useResource("webhooks", (signal) => get("/v1/webhooks", { signal }), {
    on: ["system.webhook_disabled"],
    every: 30,
  });
  const [edited, setEdited] = useState<Webhook | "new" | null>(null);
  const [secret, setSecret] = useState<string | null>(null);
  const done = (made: string | null) => {
    setEdited(null);
    setSecret(made);
    list.reload();
  };
  return (
    <div class="stack">
      <div class="row">
        <p class="soft">
          The server calls these addresses when something happens, signed and in order, and tries
          again for more than a day.
        </p>
        {may("webhooks:write") && (
          <span class="push">
            <Button look="main" icon="plus" onClick={() => setEdited("new")}>
              Add an endpoint
            </Button>
          </span>
        )}
      </div>
      {list.error && <ErrorBox error={list.error} retry={list.reload} />}
      {list.data === null && !list.error && <Loading />}
      {list.data?.webhooks.length === 0 && (
        <Empty title="Nobody is told anything">
          <p>
            Add an address of yours: <code>https://…</code>, <code>mailto:…</code> or{" "}
            <code>sms:…</code>.
          </p>
        </Empty>
      )}
      <ul class="stack">
        {list.data?.webhooks.map((each) => (
          <Endpoint
            key={each.webhook_id}
            webhook={each}
            edit={() => setEdited(each)}
            reload={list.reload}
            show={setSecret}
          />
        ))}
      </ul>
      {edited !== null && (
        <EndpointDialog
          webhook={edited === "new" ? null : edited}
          close={() => setEdited(null)}
          done={done}
        />
      )}
      {secret !== null && <SecretDialog secret={secret} close={() => setSecret(null)} />}
    </div>
  );
}

interface EndpointProps {
  webhook: Webhook;
  edit: () => void;
  reload: () => void;
  show: (secret: string) => void;
}

function Endpoint({ webhook, edit, reload, show }: EndpointProps) {
  const path = { webhook_id: webhook.webhook_id };
  const [isRemoving, setRemoving] = useState(false);
  const [isRotating, setRotating] = useState(false);
  const test = async () => {
    const told = await attempt(() => post("/v1/webhooks/{webhook_id}/test", { path }));
    if (told === null) return;
    const { status, error } = told.result;
    if (told.delivered)
      say(`It arrived${status === null ? "." : `: the endpoint answered ${status}.`}`);
    else say(`It did not arrive: ${error ?? `the endpoint answered ${status}`}`, "error");
  };
  const rotate = async () => {
    const made = await attempt(() => post("/v1/webhooks/{webhook_id}/rotate", { path }));
    setRotating(false);
    if (made !== null) show(made.secret);
  };
  const toggle = async () => {
    const body = { enabled: !webhook.enabled };
    if ((await attempt(() => patch("/v1/webhooks/{webhook_id}", { path, body }))) !== null)
      reload();
  };
  const drop = async () => {
    const done = await attempt(() =>
      remove("/v1/webhooks/{webhook_id}", { path }).then(() => true),
    );
    if (done !== null) reload();
  };
  return (
    <li class="card padded webhooks-endpoint">
      <header class="row">
        <h2>{webhook.url}</h2>
        <Pill state={webhook.enabled ? (webhook.failing_since === null ? "good" : "warn") : "off"}>
          {webhook.enabled ? (webhook.failing_since === null ? "on" : "failing") : "off"}
        </Pill>
        {webhook.channel !== "webhook" && <Pill state="accent">{webhook.channel}</Pill>}
      </header>
      {webhook.description !== "" && <p>{webhook.description}</p>}
      {webhook.disabled_reason !== null && !webhook.enabled && (
        <Notice look="warning">It was turned off: {webhook.disabled_reason}</Notice>
      )}
      <p class="small soft">
        Told of {webhook.events.length === 0 ? "all but loud events" : webhook.events.join(", ")}
        {webhook.workflows.length > 0 && ` · only of ${webhook.workflows.join(", ")}`}
      </p>
      <p class="small soft">
        {webhook.last_success_at === null ? (
          "Nothing has arrived yet."
        ) : (
          <>
            Last arrived <Time at={webhook.last_success_at} />.
          </>
        )}{" "}
        {webhook.failing_since !== null && (
          <>
            Failing since <Time at={webhook.failing_since} />.
          </>
        )}
        {webhook.dropped > 0 && ` ${webhook.dropped} events were dropped because too much waited.`}
      </p>
      <footer class="row">
        {may("webhooks:write") && (
          <>
            <Button small icon="play" onClick={test}>
              Send a test
            </Button>
            <Button small look="quiet" icon="edit" onClick={edit}>
              Change
            </Button>
            <Button small look="quiet" onClick={toggle}>
              {webhook.enabled ? "Turn off" : "Turn on"}
            </Button>
            {webhook.channel === "webhook" && (
              <Button small look="quiet" onClick={() => setRotating(true)}>
                New secret
              </Button>
            )}
            <Button small look="quiet" icon="trash" onClick={() => setRemoving(true)}>
              Remove
            </Button>
          </>
        )}
        <a
          class="push"
          href={href(["webhooks"], { tab: "deliveries", webhook: webhook.webhook_id })}
        >
          Deliveries
        </a>
      </footer>
      {isRotating && (
        <ConfirmDialog
          title="Make a new secret?"
          close={() => setRotating(false)}
          act="Make a new one"
          icon="key"
          keep="Keep the old one"
          confirm={rotate}
        >
          Calls are signed with both for a day, then with the new one alone. Whatever receives them
          at {webhook.url} must know it by then.
        </ConfirmDialog>
      )}
      {isRemoving && (
        <ConfirmDialog
          title="Remove this endpoint?"
          close={() => setRemoving(false)}
          act="Remove"
          confirm={drop}
        >
          {webhook.url} is told nothing more, also not what waits for it now.
        </ConfirmDialog>
      )}
    </li>
  );
}

function SecretDialog({ secret, close }: { secret: string; close: () => void }) {
  return (
    <Dialog title="The secret that signs its calls" close={close} firm>
      <p>
        It is shown this once. Give it to the program that receives the calls, to check signatures.
      </p>
      <div class="row">
        <code>{secret}</code>
        <CopyButton text={secret} label="Copy the secret" />
      </div>
      <div class="row">
        <Button look="main" onClick={close}>
          I have it
        </Button>
      </div>
    </Dialog>
  );
}
