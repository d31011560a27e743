/** What was given up: looked at, sent once more, forgotten. */

import { useState } from "preact/hooks";
import { get, post, remove } from "../../api/client";
import { may } from "../../boot";
import { usePages } from "../../live/pages";
import { ConfirmDialog } from "../../ui/dialogs";
import { plural } from "../../ui/format";
import { Button, Empty, ErrorBox, Loading } from "../../ui/parts";
import { attempt, say } from "../../ui/toasts";
import { DeliveryDialog, DeliveryTable } from "./deliveries_part";

export function DeadLettersPart({ open }: { open: string | null }) {
  const [isForgetting, setForgetting] = useState(false);
  const list = usePages(
    "dead",
    async (cursor, signal) => {
      const query = { limit: 100, cursor };
      const page = await get("/v1/dead-letters", { query, signal });
      return { items: page.deliveries, next: page.next_cursor };
    },
    { every: 15 },
  );
  const again = async () => {
    const told = await attempt(() => post("/v1/dead-letters/redeliver", { body: {} }));
    if (told === null) return;
    say(`${plural(told.count, "message")} will be sent once more.`);
    list.reload();
  };
  const forget = async () => {
    const done = await attempt(() => remove("/v1/dead-letters").then(() => true));
    setForgetting(false);
    if (done !== null) list.reload();
  };
  const hasSome = list.items !== null && list.items.length > 0;
  return (
    <div class="stack">
      <div class="row">
        <p class="soft">
          Messages that did not arrive in more than a day of tries, or were refused for good.
        </p>
        {hasSome && may("webhooks:write") && (
          <span class="push row">
            <Button icon="retry" look="main" onClick={again}>
              Send all once more
            </Button>
            <Button icon="trash" look="danger" onClick={() => setForgetting(true)}>
              Forget all
            </Button>
          </span>
        )}
      </div>
      {list.error && <ErrorBox error={list.error} retry={list.reload} />}
      {list.items === null && !list.error && <Loading />}
      {list.items?.length === 0 && (
        <Empty title="No dead letters">
          <p>Everything has arrived, or is still tried.</p>
        </Empty>
      )}
      {list.items !== null && hasSome && <DeliveryTable deliveries={list.items} />}
      {list.more && (
        <div>
          <Button onClick={list.more}>Show older ones</Button>
        </div>
      )}
      {open !== null && <DeliveryDialog id={open} changed={list.reload} />}
      {isForgetting && (
        <ConfirmDialog
          title="Forget all dead letters?"
          close={() => setForgetting(false)}
          act="Forget them"
          keep="Keep them"
          confirm={forget}
        >
          They are removed and cannot be sent any more.
        </ConfirmDialog>
      )}
    </div>
  );
}
