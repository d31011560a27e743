/** API keys: for programs, each revocable by itself. */

import "./keys.css";
import { useState } from "preact/hooks";
import { get, post, remove, type Schemas } from "../../api/client";
import { boot } from "../../boot";
import { asApiError, useResource } from "../../live/resource";
import { ConfirmDialog, FormDialog } from "../../ui/dialogs";
import { exactTime } from "../../ui/format";
import {
  Button,
  CopyButton,
  Dialog,
  Empty,
  ErrorBox,
  Field,
  Loading,
  Notice,
  Pill,
  Time,
} from "../../ui/parts";
import { TableCard } from "../../ui/table_card";
import { attempt } from "../../ui/toasts";
import type { ViewProps } from "../../views";

type Key = Schemas["KeyBody"];

export default function KeysView(_: ViewProps) {
  const list = useResource("keys", (signal) => get("/v1/keys", { query: { limit: 1000 }, signal }));
  const [isMaking, setMaking] = useState(false);
  const [made, setMade] = useState<string | null>(null);
  return (
    <>
      <header>
        <h1>API keys</h1>
        {boot.access && (
          <span class="push">
            <Button icon="plus" look="main" onClick={() => setMaking(true)}>
              Make a key
            </Button>
          </span>
        )}
      </header>
      {!boot.access && (
        <Notice>
          This server asks nobody for a key: everybody on its machine is one user. To let others in
          with keys, start it with <code>comfyrail serve --access on</code>.
        </Notice>
      )}
      {list.error && <ErrorBox error={list.error} retry={list.reload} />}
      {list.data === null && !list.error && <Loading />}
      {boot.access && list.data?.keys.length === 0 && (
        <Empty title="No keys yet">
          <p>A program that uses this server sends a key with every request.</p>
        </Empty>
      )}
      {list.data !== null && list.data.keys.length > 0 && (
        <TableCard label="Your API keys">
          <table>
            <caption class="hidden">Your API keys</caption>
            <thead>
              <tr>
                <th scope="col">Name</th>
                <th scope="col">Key</th>
                <th scope="col">Made</th>
                <th scope="col">Last used</th>
                <th scope="col">Ends</th>
                <th scope="col">
                  <span class="hidden">Acts</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {list.data.keys.map((each) => (
                <KeyRow key={each.key_id} shown={each} reload={list.reload} />
              ))}
            </tbody>
          </table>
        </TableCard>
      )}
      {isMaking && (
        <MakeDialog
          close={() => setMaking(false)}
          done={(key) => {
            setMaking(false);
            setMade(key);
            list.reload();
          }}
        />
      )}
      {made !== null && (
        <Dialog title="Your new key" close={() => setMade(null)} firm>
          <p>It is shown this once and kept nowhere. Copy it now.</p>
          <div class="row keys-made">
            <code data-testid="made-key">{made}</code>
            <CopyButton text={made} label="Copy the key" />
          </div>
          <p class="small soft">
            Programs send it as <code>Authorization: Bearer crk_…</code>; the command line takes it
            from <code>COMFYRAIL_API_KEY</code>.
          </p>
          <div class="row">
            <Button look="main" onClick={() => setMade(null)}>
              I have it
            </Button>
          </div>
        </Dialog>
      )}
    </>
  );
}

function KeyRow({ shown, reload }: { shown: Key; reload: () => void }) {
  const [isRevoking, setRevoking] = useState(false);
  const revoke = async () => {
    const path = { key_id: shown.key_id };
    const done = await attempt(() => remove("/v1/keys/{key_id}", { path }).then(() => true));
    setRevoking(false);
    if (done !== null) reload();
  };
  const isOver = shown.revoked_at !== null;
  return (
    <tr class={isOver ? "soft" : undefined}>
      <td>
        {shown.name} {isOver && <Pill state="off">revoked</Pill>}
      </td>
      <td class="mono">crk_{shown.key_id}_…</td>
      <td>
        <Time at={shown.created_at} />
      </td>
      <td>{shown.last_used_at === null ? "never" : <Time at={shown.last_used_at} />}</td>
      <td>{shown.expires_at === null ? "never" : exactTime(shown.expires_at)}</td>
      <td>
        {!isOver && (
          <Button small look="quiet" icon="trash" onClick={() => setRevoking(true)}>
            Revoke
          </Button>
        )}
        {isRevoking && (
          <ConfirmDialog
            title={`Revoke “${shown.name}”?`}
            close={() => setRevoking(false)}
            act="Revoke"
            confirm={revoke}
          >
            Programs that use it are refused from now on. It cannot be taken back.
          </ConfirmDialog>
        )}
      </td>
    </tr>
  );
}

const LIFETIMES = [
  { days: 0, name: "never ends" },
  { days: 30, name: "30 days" },
  { days: 90, name: "90 days" },
  { days: 365, name: "a year" },
];

function MakeDialog({ close, done }: { close: () => void; done: (key: string) => void }) {
  const [name, setName] = useState("");
  const [days, setDays] = useState(0);
  const [isReading, setReading] = useState(false);
  const [fault, setFault] = useState<string | null>(null);
  const make = async () => {
    setFault(null);
    const end = days === 0 ? null : new Date(Date.now() + days * 86_400_000).toISOString();
    const reading = (boot.user?.permissions ?? []).filter((each) => each.endsWith(":read"));
    try {
      const made = await post("/v1/keys", {
        body: { name: name.trim(), expires_at: end, permissions: isReading ? reading : null },
      });
      done(made.key);
    } catch (error) {
      setFault(asApiError(error).message);
    }
  };
  return (
    <FormDialog
      title="Make a key"
      close={close}
      act="Make it"
      submit={make}
      disabled={name.trim() === ""}
    >
      <Field label="What it is for" hint="Such as: the web shop" error={fault}>
        {(attributes) => (
          <input
            {...attributes}
            required
            maxLength={100}
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        )}
      </Field>
      <Field label="It ends">
        {(attributes) => (
          <select
            {...attributes}
            value={days}
            onChange={(event) => setDays(Number(event.currentTarget.value))}
          >
            {LIFETIMES.map((each) => (
              <option key={each.days} value={each.days}>
                {each.days === 0 ? each.name : `after ${each.name}`}
              </option>
            ))}
          </select>
        )}
      </Field>
      <label class="row">
        <input type="checkbox" checked={isReading} onChange={() => setReading(!isReading)} />
        It may only look, not change anything
      </label>
    </FormDialog>
  );
}
