/** What waits, who runs what, and how the fleet is. */

import "./fleet.css";
import { setQuery } from "../../router";
import { Tabs } from "../../ui/tabs";
import type { ViewProps } from "../../views";
import { QueuePart } from "./queue_part";
import { WorkersPart } from "./workers_part";

const TABS = [
  { id: "queue", name: "Queue" },
  { id: "workers", name: "Workers" },
] as const;

export default function FleetView({ query }: ViewProps) {
  const tab = query.get("tab") === "workers" ? "workers" : "queue";
  return (
    <>
      <header>
        <h1>Queue & workers</h1>
      </header>
      <Tabs
        tabs={TABS}
        current={tab}
        label="Queue and workers"
        choose={(id) => setQuery({ tab: id === "queue" ? null : id, worker: null })}
      >
        {tab === "queue" ? <QueuePart /> : <WorkersPart open={query.get("worker")} />}
      </Tabs>
    </>
  );
}
