/** One output in full, over everything else; the next one is a key away. */

import "./lightbox.css";
import { useSignal } from "@preact/signals";
import type { TargetedKeyboardEvent } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { get } from "../../api/client";
import { useResource } from "../../live/resource";
import { count } from "../../ui/format";
import { Button, ErrorBox, Loading } from "../../ui/parts";
import { Details } from "./details";
import { Picture, Player, pictureUrl, showsPicture } from "./media";
import { type Found, idOf } from "./outputs_list";
import { FIT, percentOf, scaleOfPixels, type Zoom, zoomAt } from "./zoom";
import { ZoomStage, zoomByKey } from "./zoom_stage";

interface LightboxProps {
  id: string;
  items: readonly Found[];
  hasMore: boolean;
  more: () => void;
  show: (id: string) => void;
  close: () => void;
  removed: (id: string) => void;
  compare: (id: string) => void;
}

/** So many before the end of what is loaded, more is. */
const NEAR_END = 10;

export function Lightbox(props: LightboxProps) {
  const { id, items, hasMore, more, show, close } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  const zoom = useSignal<Zoom>(FIT);
  const size = useSignal({ width: 0, height: 0 });
  const at = items.findIndex((each) => idOf(each) === id);
  const loaded = useResource(at < 0 ? id : null, (signal) =>
    get("/v1/outputs/{output_id}", { path: { output_id: id }, signal }),
  );
  const found = items[at] ?? loaded.data;
  const before = at < 0 ? undefined : items[at - 1];
  const after = at < 0 ? undefined : items[at + 1];

  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  useEffect(() => {
    zoom.value = FIT;
    size.value = { width: 0, height: 0 };
    if (at >= items.length - NEAR_END && hasMore) more();
    if (after !== undefined && showsPicture(after)) new Image().src = pictureUrl(after) ?? "";
  }, [id]);

  const stage = () => {
    const box = dialog.current?.querySelector(".zoom-stage");
    return { width: box?.clientWidth ?? 0, height: box?.clientHeight ?? 0 };
  };
  const pixels = () => scaleOfPixels(size.peek(), stage(), devicePixelRatio, false);
  const step = (by: 1 | -1) => {
    const next = by === 1 ? after : before;
    if (next !== undefined) show(idOf(next));
  };
  const press = (event: TargetedKeyboardEvent<HTMLDialogElement>) => {
    const target = event.target as HTMLElement;
    // Dialogs on top of this one, players and fields have their own keys.
    if (target.closest("dialog") !== dialog.current || target.matches(OWN_KEYS)) return;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (found && showsPicture(found) && zoomByKey(zoom, event, pixels)) return;
    if (event.key === "ArrowRight") step(1);
    else if (event.key === "ArrowLeft") step(-1);
    else return;
    event.preventDefault();
  };
  const whenRemoved = () => {
    const next = after ?? before;
    props.removed(id);
    if (next !== undefined) show(idOf(next));
    else dialog.current?.close();
  };
  return (
    <dialog
      ref={dialog}
      class="lightbox"
      aria-label={found?.output.filename ?? "Output"}
      onClose={close}
      onKeyDown={press}
    >
      <header class="lightbox-head">
        <h2>{found?.output.filename ?? ""}</h2>
        {at >= 0 && (
          <span class="soft small number lightbox-place">
            {count(at + 1)} of {count(items.length)}
            {hasMore && "+"}
          </span>
        )}
        <span class="lightbox-tools">
          {found && showsPicture(found) && (
            <ZoomTools zoom={zoom} size={size.value} stage={stage} pixels={pixels} />
          )}
          <Button
            look="quiet"
            icon="left"
            label="Previous"
            disabled={before === undefined}
            onClick={() => step(-1)}
          />
          <Button
            look="quiet"
            icon="chevron"
            label="Next"
            disabled={after === undefined}
            onClick={() => step(1)}
          />
          <Button look="quiet" icon="close" label="Close" onClick={() => dialog.current?.close()} />
        </span>
      </header>
      {loaded.error && <ErrorBox error={loaded.error} retry={loaded.reload} />}
      {found ? (
        <div class="lightbox-body">
          {showsPicture(found) ? (
            <ZoomStage zoom={zoom} pixels={pixels} swipe={step} class="lightbox-stage">
              <Picture
                key={id}
                found={found}
                class={zoom.value.scale >= pixels() * 2 ? "own-size coarse" : "own-size"}
                sized={(known) => {
                  size.value = known;
                }}
              />
            </ZoomStage>
          ) : (
            <div class="lightbox-stage other">
              <Player key={id} found={found} />
            </div>
          )}
          <Details key={id} found={found} removed={whenRemoved} compare={() => props.compare(id)} />
        </div>
      ) : (
        !loaded.error && <Loading lines={6} />
      )}
    </dialog>
  );
}

const OWN_KEYS = "input, textarea, select, video, audio, pre";

interface ToolsProps {
  zoom: { value: Zoom };
  size: { width: number; height: number };
  stage: () => { width: number; height: number };
  pixels: () => number;
}

function ZoomTools({ zoom, size, stage, pixels }: ToolsProps) {
  const isFit = zoom.value.scale === 1;
  const shown =
    size.width === 0 ? null : percentOf(zoom.value, size, stage(), devicePixelRatio, false);
  return (
    <>
      <span class="soft small number lightbox-percent">{shown === null ? "" : `${shown}%`}</span>
      <Button
        small
        look="quiet"
        pressed={isFit}
        onClick={() => {
          zoom.value = FIT;
        }}
      >
        Fit
      </Button>
      <Button
        small
        look="quiet"
        pressed={shown === 100}
        disabled={shown === null}
        onClick={() => {
          zoom.value = zoomAt(FIT, pixels(), { x: 0, y: 0 });
        }}
      >
        100%
      </Button>
    </>
  );
}
