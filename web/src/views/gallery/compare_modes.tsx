/** The ways to see how two pictures differ. All look at the same part of both. */

import type { Signal } from "@preact/signals";
import type { ComponentChildren, TargetedKeyboardEvent } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Button } from "../../ui/parts";
import { Picture } from "./media";
import type { Found } from "./outputs_list";
import { FIT, scaleOfPixels, type Zoom } from "./zoom";
import { ZoomStage, zoomByKey } from "./zoom_stage";

export interface ModeProps {
  a: Found;
  b: Found;
  zoom: Signal<Zoom>;
}

export const pixelsOf = (found: Found, stage: Element | null) => () => {
  const { width, height } = found.output.media ?? {};
  const size = { width: width ?? 0, height: height ?? 0 };
  const box = { width: stage?.clientWidth ?? 0, height: stage?.clientHeight ?? 0 };
  return scaleOfPixels(size, box, devicePixelRatio, true);
};

/** A frame that takes the keys of the zoom, with what belongs below it. */
export function Frame({
  zoom,
  found,
  label,
  children,
  below,
}: {
  zoom: Signal<Zoom>;
  found: Found;
  label: string;
  children: ComponentChildren;
  below?: ComponentChildren;
}) {
  const box = useRef<HTMLElement>(null);
  return (
    <>
      <section
        ref={box}
        class="compare-frame"
        aria-label={label}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: its keys need it
        tabIndex={0}
        onKeyDown={(event) => {
          if (event.target === event.currentTarget) {
            zoomByKey(zoom, event, pixelsOf(found, box.current));
          }
        }}
      >
        {children}
      </section>
      <div class="row compare-below">
        {below}
        {zoom.value.scale > 1 && (
          <Button
            small
            look="quiet"
            onClick={() => {
              zoom.value = FIT;
            }}
          >
            Show the whole
          </Button>
        )}
        <span class="soft small push compare-hint">
          Ctrl and wheel or double click: nearer. Drag: move.
        </span>
      </div>
    </>
  );
}

export function Slider({ a, b, zoom }: ModeProps) {
  const [at, setAt] = useState(50);
  const box = useRef<HTMLDivElement>(null);
  const follow = (event: PointerEvent) => {
    const { left, width } = box.current?.getBoundingClientRect() ?? { left: 0, width: 1 };
    setAt(bounded(((event.clientX - left) / width) * 100));
  };
  return (
    <Frame zoom={zoom} found={a} label="A left of the line, B right of it">
      <div class="compare-stack" ref={box}>
        <ZoomStage zoom={zoom} pixels={pixelsOf(a, box.current)} inPage>
          <Picture found={b} />
        </ZoomStage>
        <div class="compare-over" style={{ clipPath: `inset(0 ${100 - at}% 0 0)` }}>
          <Moved zoom={zoom.value}>
            <Picture found={a} />
          </Moved>
        </div>
        <span class="compare-tag left">A</span>
        <span class="compare-tag right">B</span>
        <div
          class="compare-handle"
          role="slider"
          tabIndex={0}
          aria-label="Line between A and B"
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuenow={Math.round(at)}
          aria-valuetext={`${Math.round(at)}% A`}
          style={{ left: `${at}%` }}
          onKeyDown={(event) => {
            const next = bySliderKey(event, at);
            if (next !== null) setAt(next);
          }}
          onPointerDown={(event) => {
            event.stopPropagation();
            event.currentTarget.setPointerCapture(event.pointerId);
          }}
          onPointerMove={(event) => {
            if (event.currentTarget.hasPointerCapture(event.pointerId)) follow(event);
          }}
        />
      </div>
    </Frame>
  );
}

function bounded(value: number): number {
  return Math.min(100, Math.max(0, value));
}

const SLIDER_STEPS: Record<string, number> = {
  ArrowLeft: -2,
  ArrowDown: -2,
  ArrowRight: 2,
  ArrowUp: 2,
  PageDown: -20,
  PageUp: 20,
  Home: -100,
  End: 100,
};

function bySliderKey(event: TargetedKeyboardEvent<HTMLElement>, at: number): number | null {
  const step = SLIDER_STEPS[event.key];
  if (step === undefined) return null;
  event.preventDefault();
  return bounded(at + step);
}

/** Moves with a stage that it is not in. */
function Moved({ zoom, children }: { zoom: Zoom; children: ComponentChildren }) {
  const { x, y, scale } = zoom;
  return (
    <div
      class="zoom-moved"
      style={{ transform: `translate(${x * 100}%, ${y * 100}%) scale(${scale})` }}
    >
      {children}
    </div>
  );
}

export function SideBySide({ a, b, zoom }: ModeProps) {
  const box = useRef<HTMLDivElement>(null);
  return (
    <Frame zoom={zoom} found={a} label="A and B side by side">
      <div class="compare-two" ref={box}>
        {[a, b].map((found, place) => (
          <div class="compare-stack" key={place === 0 ? "a" : "b"}>
            <ZoomStage
              zoom={zoom}
              pixels={pixelsOf(found, box.current?.firstElementChild ?? null)}
              inPage
            >
              <Picture found={found} />
            </ZoomStage>
            <span class="compare-tag left">{place === 0 ? "A" : "B"}</span>
          </div>
        ))}
      </div>
    </Frame>
  );
}

const BLINK_MS = 800;

export function Blink({ a, b, zoom }: ModeProps) {
  const [isB, setB] = useState(false);
  // Whoever asked for less motion turns it over by hand.
  const [isOn, setOn] = useState(() => !matchMedia("(prefers-reduced-motion: reduce)").matches);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!isOn) return;
    const timer = setInterval(() => setB((old) => !old), BLINK_MS);
    return () => clearInterval(timer);
  }, [isOn]);
  const turn = () => {
    setOn(false);
    setB(!isB);
  };
  return (
    <Frame
      zoom={zoom}
      found={a}
      label="A and B by turns"
      below={
        <>
          <Button small icon={isOn ? "pause" : "play"} onClick={() => setOn(!isOn)}>
            {isOn ? "Stop" : "Blink"}
          </Button>
          <Button small onClick={turn}>
            Show {isB ? "A" : "B"}
          </Button>
        </>
      }
    >
      <div class="compare-stack" ref={box}>
        <ZoomStage zoom={zoom} pixels={pixelsOf(a, box.current)} inPage>
          <div class={isB ? "compare-turn gone" : "compare-turn"}>
            <Picture found={a} />
          </div>
          <div class={isB ? "compare-turn" : "compare-turn gone"}>
            <Picture found={b} />
          </div>
        </ZoomStage>
        <span class="compare-tag left">{isB ? "B" : "A"}</span>
      </div>
    </Frame>
  );
}
