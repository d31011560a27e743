/** Whom the server tells, what it has told, and what did not arrive. */

import "./webhooks.css";
import { setQuery } from "../../router";
import { Tabs } from "../../ui/tabs";
import type { ViewProps } from "../../views";
import { DeadLettersPart } from "./dead_letters_part";
import { DeliveriesPart } from "./deliveries_part";
import { EndpointsPart } from "./endpoints_part";

const TABS = [
  { id: "endpoints", name: "Endpoints" },
  { id: "deliveries", name: "Deliveries" },
  { id: "dead", name: "Dead letters" },
] as const;

export default function WebhooksView({ query }: ViewProps) {
  const tab = TABS.find((each) => each.id === query.get("tab"))?.id ?? "endpoints";
  return (
    <>
      <header>
        <h1>Webhooks</h1>
      </header>
      <Tabs
        tabs={TABS}
        current={tab}
        label="Webhooks"
        choose={(id) =>
          setQuery({
            tab: id === "endpoints" ? null : id,
            delivery: null,
            webhook: null,
            state: null,
          })
        }
      >
        {tab === "deliveries" ? (
          <DeliveriesPart
            webhook={query.get("webhook")}
            state={query.get("state")}
            open={query.get("delivery")}
          />
        ) : tab === "dead" ? (
          <DeadLettersPart open={query.get("delivery")} />
        ) : (
          <EndpointsPart />
        )}
      </Tabs>
    </>
  );
}
