/** Moving and zooming a drawing by mouse, fingers, wheel and buttons, without painting it anew. */

import type { RefObject } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Box, Frame } from "./geometry";
import { closeUp, opening, overview, revealed, type Viewport, zoomed } from "./viewport";

export interface Panning {
  fit: () => void;
  zoom: (factor: number) => void;
  /** In sight. */
  reveal: (box: Box) => void;
  /** In sight and large enough to read; it stays so when the room changes. */
  approach: (box: Box) => void;
  /** As at the beginning, unless somebody has moved it since. */
  openAgain: () => void;
  /** Whether what ended just now was a drag and no click. */
  wasDragged: () => boolean;
}

/** Pixels that a pointer moves before it is a drag. */
const SLACK = 4;

/** `home`: what is seen first of a drawing that is too large to see all of it. */
export function usePanning(
  room: RefObject<HTMLElement | null>,
  sheet: RefObject<HTMLElement | null>,
  frame: Frame,
  home: () => Box | null,
): Panning {
  const view = useRef<Viewport>({ x: 0, y: 0, scale: 1 });
  /** What it goes back to when the room changes: how it was opened, a box, or nothing. */
  const held = useRef<"opening" | Box | null>("opening");
  const dragged = useRef(false);
  const wanted = useRef({ frame, home });
  wanted.current = { frame, home };

  const acts = useMemo(() => {
    const size = () => ({
      width: room.current?.clientWidth ?? 1,
      height: room.current?.clientHeight ?? 1,
    });
    const show = (next: Viewport) => {
      view.current = next;
      const { x, y, scale } = next;
      if (sheet.current !== null) {
        sheet.current.style.transform = `translate(${x}px, ${y}px) scale(${scale})`;
      }
    };
    const open = () => {
      held.current = "opening";
      show(opening(wanted.current.frame, size(), wanted.current.home()));
    };
    const approach = (box: Box) => {
      held.current = box;
      show(closeUp(view.current, box, size()));
    };
    const hold = () => {
      if (held.current === "opening") open();
      else if (held.current !== null) approach(held.current);
    };
    return {
      show,
      open,
      approach,
      hold,
      openAgain: () => {
        if (held.current === "opening") open();
      },
      fit: () => {
        held.current = null; // asked for: it stays when the room changes
        show(overview(wanted.current.frame, size(), wanted.current.home()));
      },
      zoom: (factor: number) => {
        held.current = null;
        const { width, height } = size();
        show(zoomed(view.current, factor, width / 2, height / 2));
      },
      reveal: (box: Box) => {
        const next = revealed(view.current, box, size());
        if (next.x === view.current.x && next.y === view.current.y) return;
        held.current = null;
        show(next);
      },
      wasDragged: () => dragged.current,
    };
  }, []);

  useEffect(() => acts.open(), [frame]);

  useEffect(() => {
    const element = room.current;
    if (element === null) return;
    const resized = new ResizeObserver(() => acts.hold());
    resized.observe(element);
    const pointers = new Map<number, { x: number; y: number }>();
    const at = (event: MouseEvent) => {
      const edge = element.getBoundingClientRect();
      return { x: event.clientX - edge.left, y: event.clientY - edge.top };
    };
    let began = { x: 0, y: 0 };
    const down = (event: PointerEvent) => {
      if (event.button !== 0 && event.button !== 1) return;
      if ((event.target as Element).closest("[data-still]") !== null) return;
      pointers.set(event.pointerId, at(event));
      if (pointers.size === 1) {
        began = at(event);
        dragged.current = false;
      }
    };
    const move = (event: PointerEvent) => {
      const old = pointers.get(event.pointerId);
      if (old === undefined) return;
      const now = at(event);
      if (!dragged.current && Math.hypot(now.x - began.x, now.y - began.y) < SLACK) return;
      if (!dragged.current) {
        dragged.current = true;
        // From now on all of it is ours, also outside; a click would not come through otherwise.
        element.setPointerCapture(event.pointerId);
        // Moved as one picture; only while it lasts, as it would be blurred when zoomed.
        if (sheet.current !== null) sheet.current.style.willChange = "transform";
      }
      held.current = null;
      const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
      pointers.set(event.pointerId, now);
      if (other === undefined) {
        const { x, y, scale } = view.current;
        acts.show({ x: x + now.x - old.x, y: y + now.y - old.y, scale });
        return;
      }
      const [before, after] = [spread(old, other), spread(now, other)];
      const turned = zoomed(view.current, after.length / before.length, before.x, before.y);
      acts.show({
        ...turned,
        x: turned.x + after.x - before.x,
        y: turned.y + after.y - before.y,
      });
    };
    const up = (event: PointerEvent) => {
      pointers.delete(event.pointerId);
      if (pointers.size === 0 && sheet.current !== null) sheet.current.style.willChange = "";
    };
    const wheel = (event: WheelEvent) => {
      event.preventDefault();
      held.current = null;
      const { x, y } = at(event);
      const lines = event.deltaMode === 1 ? 16 : 1;
      // A pinch of a touchpad comes as a wheel with Ctrl, in small steps.
      const speed = event.ctrlKey ? 0.01 : 0.0015;
      acts.show(zoomed(view.current, Math.exp(-event.deltaY * lines * speed), x, y));
    };
    const stay = () => {
      element.scrollTo(0, 0); // browsers scroll to what has the focus
    };
    element.addEventListener("pointerdown", down);
    element.addEventListener("pointermove", move);
    element.addEventListener("pointerup", up);
    element.addEventListener("pointercancel", up);
    element.addEventListener("wheel", wheel, { passive: false });
    element.addEventListener("scroll", stay);
    return () => {
      resized.disconnect();
      element.removeEventListener("pointerdown", down);
      element.removeEventListener("pointermove", move);
      element.removeEventListener("pointerup", up);
      element.removeEventListener("pointercancel", up);
      element.removeEventListener("wheel", wheel);
      element.removeEventListener("scroll", stay);
    };
  }, []);

  return acts;
}

interface Point {
  x: number;
  y: number;
}

function spread(a: Point, b: Point): { x: number; y: number; length: number } {
  const length = Math.max(Math.hypot(a.x - b.x, a.y - b.y), 1);
  return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, length };
}
