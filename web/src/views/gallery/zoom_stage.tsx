/** A picture that one can come nearer to and move: wheel, two fingers, drag, double click. */

import type { Signal } from "@preact/signals";
import type { ComponentChildren, TargetedPointerEvent } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { FIT, moved, type Zoom, zoomAt } from "./zoom";

interface StageProps {
  zoom: Signal<Zoom>;
  children: ComponentChildren;
  /** Where a double click leads: the scale at which pixels are pixels. */
  pixels: () => number;
  /** The page scrolls here as well: the wheel alone does that, with Ctrl it comes nearer. */
  inPage?: boolean;
  /** 1: to the next, -1: to the one before. */
  swipe?: (step: 1 | -1) => void;
  class?: string;
}

const SWIPE = 60;
const WHEEL = 0.0018;
const STEP = 1.4;

interface Finger {
  x: number;
  y: number;
}

export function ZoomStage({ zoom, children, pixels, inPage, swipe, class: sort }: StageProps) {
  const stage = useRef<HTMLDivElement>(null);
  const fingers = useRef(new Map<number, Finger>());
  const begun = useRef<Finger | null>(null);

  useEffect(() => {
    const { current } = stage;
    if (current === null) return;
    const turn = (event: WheelEvent) => {
      if (inPage && !event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const lines = event.deltaMode === 0 ? event.deltaY : event.deltaY * 30;
      zoom.value = zoomAt(zoom.peek(), Math.exp(-lines * WHEEL), partOf(current, event));
    };
    // Preact's own listeners cannot keep the page from scrolling.
    current.addEventListener("wheel", turn, { passive: false });
    return () => current.removeEventListener("wheel", turn);
  }, [inPage]);

  const down = (event: TargetedPointerEvent<HTMLDivElement>) => {
    if (event.button !== 0) return;
    event.currentTarget.setPointerCapture(event.pointerId);
    const finger = { x: event.clientX, y: event.clientY };
    if (fingers.current.size === 0) begun.current = finger;
    fingers.current.set(event.pointerId, finger);
  };
  const move = (event: TargetedPointerEvent<HTMLDivElement>) => {
    const old = fingers.current.get(event.pointerId);
    if (old === undefined) return;
    const finger = { x: event.clientX, y: event.clientY };
    const { clientWidth, clientHeight } = event.currentTarget;
    const others = [...fingers.current].filter(([id]) => id !== event.pointerId);
    fingers.current.set(event.pointerId, finger);
    const other = others[0]?.[1];
    if (other === undefined) {
      zoom.value = moved(
        zoom.peek(),
        (finger.x - old.x) / clientWidth,
        (finger.y - old.y) / clientHeight,
      );
      return;
    }
    begun.current = null; // two fingers do not swipe
    const before = Math.hypot(old.x - other.x, old.y - other.y);
    const after = Math.hypot(finger.x - other.x, finger.y - other.y);
    if (before === 0) return;
    const middle = { clientX: (finger.x + other.x) / 2, clientY: (finger.y + other.y) / 2 };
    zoom.value = zoomAt(zoom.peek(), after / before, partOf(event.currentTarget, middle));
  };
  const up = (event: TargetedPointerEvent<HTMLDivElement>) => {
    if (!fingers.current.delete(event.pointerId) || begun.current === null) return;
    const x = event.clientX - begun.current.x;
    const y = event.clientY - begun.current.y;
    begun.current = null;
    const isTouch = event.pointerType === "touch" && event.type === "pointerup";
    if (
      isTouch &&
      zoom.peek().scale === 1 &&
      Math.abs(x) > SWIPE &&
      Math.abs(x) > 2 * Math.abs(y)
    ) {
      swipe?.(x < 0 ? 1 : -1);
    }
  };
  const toggle = (event: MouseEvent) => {
    const { current } = stage;
    if (current === null) return;
    const near = Math.max(pixels(), 2);
    zoom.value = zoom.peek().scale > 1 ? FIT : zoomAt(zoom.peek(), near, partOf(current, event));
  };
  const { scale, x, y } = zoom.value;
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: there are buttons and keys that do the same
    <div
      ref={stage}
      class={`zoom-stage${scale > 1 ? " near" : ""}${inPage ? " in-page" : ""} ${sort ?? ""}`}
      onPointerDown={down}
      onPointerMove={move}
      onPointerUp={up}
      onPointerCancel={up}
      onDblClick={toggle}
    >
      <div
        class="zoom-moved"
        style={{ transform: `translate(${x * 100}%, ${y * 100}%) scale(${scale})` }}
      >
        {children}
      </div>
    </div>
  );
}

function partOf(stage: HTMLElement, at: { clientX: number; clientY: number }): Finger {
  const { left, top, width, height } = stage.getBoundingClientRect();
  return { x: (at.clientX - left) / width - 0.5, y: (at.clientY - top) / height - 0.5 };
}

/** Plus and minus, 0 for the whole, 1 for pixels; Shift and arrows move. True: it was one of them. */
export function zoomByKey(zoom: Signal<Zoom>, event: KeyboardEvent, pixels: () => number): boolean {
  const middle = { x: 0, y: 0 };
  const now = zoom.peek();
  if (event.key === "+" || event.key === "=") zoom.value = zoomAt(now, STEP, middle);
  else if (event.key === "-") zoom.value = zoomAt(now, 1 / STEP, middle);
  else if (event.key === "0") zoom.value = FIT;
  else if (event.key === "1") zoom.value = zoomAt(FIT, pixels(), middle);
  else if (event.shiftKey && event.key === "ArrowLeft") zoom.value = moved(now, 0.15, 0);
  else if (event.shiftKey && event.key === "ArrowRight") zoom.value = moved(now, -0.15, 0);
  else if (event.shiftKey && event.key === "ArrowUp") zoom.value = moved(now, 0, 0.15);
  else if (event.shiftKey && event.key === "ArrowDown") zoom.value = moved(now, 0, -0.15);
  else return false;
  event.preventDefault();
  return true;
}
