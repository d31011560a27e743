/** For a server that has only its own engine: what that is, and how a ComfyUI is added. */

import { useState } from "preact/hooks";
import { get } from "../../api/client";
import { may } from "../../boot";
import { useResource } from "../../live/resource";
import { Button, Dialog } from "../../ui/parts";
import { AddWorker } from "../fleet/add_worker";

const KEY = "comfyrail-first-run-seen";

function isSeen(): boolean {
  try {
    return localStorage.getItem(KEY) !== null;
  } catch {
    return false;
  }
}

export function FirstRun() {
  const [isGone, setGone] = useState(isSeen);
  const [isAdding, setAdding] = useState(false);
  const isWanted = !isGone && may("fleet:read");
  const workers = useResource(
    isWanted ? "workers" : null,
    (signal) => get("/v1/workers", { signal }),
    { on: ["worker.*"] },
  );
  if (!isWanted || workers.data === null) return null;
  if (workers.data.workers.some((each) => each.driver !== "local")) return null;
  const dismiss = () => {
    setGone(true);
    try {
      localStorage.setItem(KEY, "1");
    } catch {
      // it comes again with the next visit
    }
  };
  return (
    <section class="card padded run-first" aria-label="Getting started">
      <div>
        <h2>Welcome to Comfyrail</h2>
        <p>
          Its own engine runs the examples below, without a GPU. For workflows with models, add a
          ComfyUI that you have: Comfyrail then knows its node types and models, and sends it the
          jobs that it can run.
        </p>
      </div>
      <div class="row">
        {may("fleet:write") && (
          <Button look="main" icon="plus" onClick={() => setAdding(true)}>
            Add a ComfyUI
          </Button>
        )}
        <Button look="quiet" onClick={dismiss}>
          Not now
        </Button>
      </div>
      {isAdding && (
        <Dialog title="Add a ComfyUI" close={() => setAdding(false)}>
          <AddWorker added={() => setAdding(false)} />
        </Dialog>
      )}
    </section>
  );
}
