/** What can be done with what is chosen. */

import { useState } from "preact/hooks";
import { remove } from "../../api/client";
import { may } from "../../boot";
import { asApiError } from "../../live/resource";
import { href } from "../../router";
import { count, plural } from "../../ui/format";
import { Button, Dialog, LinkButton } from "../../ui/parts";
import { say } from "../../ui/toasts";
import { MOST_CHOSEN, zipOfChosen } from "./outputs_list";

interface BarProps {
  chosen: ReadonlySet<string>;
  loaded: number;
  all: () => void;
  clear: () => void;
  /** Called with what is not there any more. */
  removed: (ids: ReadonlySet<string>) => void;
}

export function SelectionBar({ chosen, loaded, all, clear, removed }: BarProps) {
  const [isAsking, setAsking] = useState(false);
  const [a, b] = [...chosen];
  const isTooMany = chosen.size > MOST_CHOSEN;
  return (
    <section class="gallery-bar" aria-label="Selection">
      <strong role="status">{count(chosen.size)} selected</strong>
      {chosen.size < loaded && (
        <Button small look="quiet" onClick={all}>
          Select all {count(loaded)} loaded
        </Button>
      )}
      <span class="row push">
        {chosen.size === 2 && a !== undefined && b !== undefined && (
          <LinkButton small icon="compare" href={href(["compare"], { a: b, b: a })}>
            Compare
          </LinkButton>
        )}
        {chosen.size > 0 &&
          (isTooMany ? (
            <span class="small soft">A zip has {MOST_CHOSEN} at most</span>
          ) : (
            <LinkButton small icon="download" href={zipOfChosen(chosen)} download>
              Zip
            </LinkButton>
          ))}
        {chosen.size > 0 && may("jobs:write") && (
          <Button small look="danger" icon="trash" onClick={() => setAsking(true)}>
            Delete
          </Button>
        )}
        <Button small look="quiet" icon="close" label="End the selection" onClick={clear} />
      </span>
      {isAsking && (
        <DeleteDialog
          ids={[...chosen]}
          close={() => setAsking(false)}
          removed={(ids) => {
            setAsking(false);
            removed(ids);
          }}
        />
      )}
    </section>
  );
}

interface DeleteProps {
  ids: readonly string[];
  close: () => void;
  removed: (ids: ReadonlySet<string>) => void;
}

/** So many are under way at the same time. */
const AT_ONCE = 4;

export function DeleteDialog({ ids, close, removed }: DeleteProps) {
  const [done, setDone] = useState(0);
  const act = async () => {
    const gone = new Set<string>();
    const waiting = [...ids];
    let fault: string | null = null;
    const work = async () => {
      for (let id = waiting.shift(); id !== undefined && fault === null; id = waiting.shift()) {
        try {
          await remove("/v1/outputs/{output_id}", { path: { output_id: id } });
          gone.add(id);
          setDone(gone.size);
        } catch (error) {
          fault = asApiError(error).message;
        }
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    if (fault !== null)
      say(`${count(gone.size)} of ${count(ids.length)} deleted. ${fault}`, "error");
    else say(`${plural(gone.size, "file")} deleted.`);
    removed(gone);
  };
  return (
    <Dialog title={`Delete ${plural(ids.length, "file")}?`} close={close}>
      <p>
        {ids.length === 1 ? "It cannot be brought back." : "They cannot be brought back."} The job
        stays in the list of jobs.
      </p>
      <div class="row">
        <Button look="danger" icon="trash" onClick={act}>
          {done > 0 ? `Deleting ${done} of ${ids.length}` : "Delete"}
        </Button>
        <Button onClick={close}>Keep</Button>
      </div>
    </Dialog>
  );
}
