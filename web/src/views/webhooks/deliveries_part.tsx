/** What was sent, or will be: the newest first, each with its tries. */

import { useEffect, useState } from "preact/hooks";
import { get, post, type Schemas } from "../../api/client";
import { may } from "../../boot";
import { usePages } from "../../live/pages";
import { TURNS } from "../../live/progress";
import { useResource } from "../../live/resource";
import { href, setQuery } from "../../router";
import { duration, exactTime, shortId } from "../../ui/format";
import { Button, Dialog, Empty, ErrorBox, Field, Loading, Pill, Time } from "../../ui/parts";
import { TableCard } from "../../ui/table_card";
import { attempt, say } from "../../ui/toasts";

type Delivery = Schemas["DeliveryBody"];
const STATES = ["pending", "delivered", "dead"] as const;
/** No event tells of a try. */
const PENDING_PACE = 3;

interface DeliveriesProps {
  webhook: string | null;
  state: string | null;
  open: string | null;
}

export function DeliveriesPart({ webhook, state, open }: DeliveriesProps) {
  const query = { webhook_id: webhook, state: STATES.find((each) => each === state) };
  const list = usePages(
    JSON.stringify(query),
    async (cursor, signal) => {
      const page = await get("/v1/deliveries", {
        query: { ...query, limit: 100, cursor },
        signal,
      });
      return { items: page.deliveries, next: page.next_cursor };
    },
    { on: TURNS, every: 10 },
  );
  return (
    <div class="stack">
      <div class="row">
        <Field label="State">
          {(attributes) => (
            <select
              {...attributes}
              value={state ?? ""}
              onChange={(event) => setQuery({ state: event.currentTarget.value })}
            >
              <option value="">any</option>
              {STATES.map((each) => (
                <option key={each}>{each}</option>
              ))}
            </select>
          )}
        </Field>
        {webhook !== null && (
          <Button small look="quiet" icon="close" onClick={() => setQuery({ webhook: null })}>
            Of one endpoint only
          </Button>
        )}
      </div>
      {list.error && <ErrorBox error={list.error} retry={list.reload} />}
      {list.items === null && !list.error && <Loading />}
      {list.items?.length === 0 && (
        <Empty title="No deliveries">
          <p>Whatever the server tells somebody is written down here.</p>
        </Empty>
      )}
      {list.items !== null && list.items.length > 0 && <DeliveryTable deliveries={list.items} />}
      {list.more && (
        <div>
          <Button onClick={list.more}>Show older ones</Button>
        </div>
      )}
      {open !== null && <DeliveryDialog id={open} changed={list.reload} />}
    </div>
  );
}

export function DeliveryTable({ deliveries }: { deliveries: readonly Delivery[] }) {
  return (
    <TableCard label="Deliveries">
      <table>
        <caption class="hidden">Deliveries</caption>
        <thead>
          <tr>
            <th scope="col">When</th>
            <th scope="col">What</th>
            <th scope="col">To</th>
            <th scope="col">State</th>
            <th scope="col">Tries</th>
            <th scope="col">
              <span class="hidden">Details</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {deliveries.map((each) => (
            <tr key={each.delivery_id}>
              <td>
                <Time at={each.created_at} />
              </td>
              <td>
                {each.type}
                {each.execution_id !== null && (
                  <>
                    {" "}
                    <a href={href(["jobs", each.execution_id])}>job {shortId(each.execution_id)}</a>
                  </>
                )}
              </td>
              <td class="webhooks-url">{each.url ?? "an endpoint that is gone"}</td>
              <td>
                <Pill state={each.state} />
                {each.last_error !== null && each.state !== "delivered" && (
                  <p class="small soft">{each.last_error}</p>
                )}
              </td>
              <td class="number">{each.attempts}</td>
              <td>
                <Button small look="quiet" onClick={() => setQuery({ delivery: each.delivery_id })}>
                  Details
                </Button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableCard>
  );
}

export function DeliveryDialog({ id, changed }: { id: string; changed: () => void }) {
  const path = { delivery_id: id };
  const [isPending, setPending] = useState(false);
  const found = useResource(
    `delivery/${id}`,
    (signal) => get("/v1/deliveries/{delivery_id}", { path, signal }),
    isPending ? { every: PENDING_PACE } : {},
  );
  const state = found.data?.delivery.state;
  useEffect(() => setPending(state === "pending"), [state]);
  const again = async () => {
    const told = await attempt(() => post("/v1/deliveries/{delivery_id}/redeliver", { path }));
    if (told === null) return;
    say("It is sent once more.");
    found.reload();
    changed();
  };
  const detail = found.data;
  return (
    <Dialog title="Delivery" close={() => setQuery({ delivery: null })} wide>
      {found.error && <ErrorBox error={found.error} retry={found.reload} />}
      {detail === null ? (
        !found.error && <Loading />
      ) : (
        <div class="stack">
          <dl class="facts">
            <dt>What</dt>
            <dd>{detail.delivery.type}</dd>
            <dt>To</dt>
            <dd>{detail.delivery.url ?? "an endpoint that is gone"}</dd>
            <dt>State</dt>
            <dd>
              <Pill state={detail.delivery.state} />
            </dd>
            {detail.delivery.next_attempt_at !== null && (
              <>
                <dt>Next try</dt>
                <dd>{exactTime(detail.delivery.next_attempt_at)}</dd>
              </>
            )}
          </dl>
          <h3>Tries</h3>
          {detail.tries.length === 0 && <p class="soft">None yet.</p>}
          <ol class="stack">
            {detail.tries.map((each) => (
              <li key={each.attempt}>
                <span class="number">{each.attempt}.</span> <Time at={each.timestamp} />,{" "}
                {duration(each.duration)}: {each.error ?? `answered ${each.status}`}
                {each.reply !== null && each.reply !== "" && <pre>{each.reply}</pre>}
              </li>
            ))}
          </ol>
          {detail.body !== null && (
            <details>
              <summary>What is sent</summary>
              <pre>{detail.body}</pre>
            </details>
          )}
          {may("webhooks:write") && (
            <div class="row">
              <Button icon="retry" onClick={again} disabled={detail.delivery.state === "pending"}>
                Send once more
              </Button>
            </div>
          )}
        </div>
      )}
    </Dialog>
  );
}
