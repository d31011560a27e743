/** What of a drawing is in sight: moved and zoomed. Pure. */

import type { Box, Frame } from "./geometry";

/** A point of the drawing is shown at `x + scale * its x`. */
export interface Viewport {
  x: number;
  y: number;
  scale: number;
}

interface Size {
  width: number;
  height: number;
}

export const LEAST = 0.05;
export const MOST = 2.5;
const MARGIN = 28;

/** All of it in the middle; small drawings are not blown up. */
export function fitted(frame: Frame, size: Size): Viewport {
  const across = (size.width - 2 * MARGIN) / Math.max(frame.width, 1);
  const down = (size.height - 2 * MARGIN) / Math.max(frame.height, 1);
  const scale = Math.max(Math.min(across, down, 1), 1e-6);
  return {
    x: size.width / 2 - (frame.x + frame.width / 2) * scale,
    y: size.height / 2 - (frame.y + frame.height / 2) * scale,
    scale,
  };
}

const NARROW = 560;
/** Nodes can be read from here on; their shapes can be told from each other from there on. */
export const LEGIBLE = 0.62;
const VISIBLE = 0.25;

/**
 * What is seen first: all of it where it can be made out, on a phone where it can be read. Else
 * `home`, or the beginning.
 */
export function opening(frame: Frame, size: Size, home: Box | null = null): Viewport {
  const all = fitted(frame, size);
  if (all.scale >= (size.width >= NARROW ? VISIBLE : LEGIBLE)) return all;
  const beginning = MARGIN - frame.x * LEGIBLE;
  if (home !== null) {
    const near = middled(home, size);
    return { ...near, x: Math.min(near.x, beginning) };
  }
  const middle = size.height / 2 - (frame.y + frame.height / 2) * LEGIBLE;
  return { x: beginning, y: middle, scale: LEGIBLE };
}

/** All of it; of one that would be next to nothing then, what is seen first. */
export function overview(frame: Frame, size: Size, home: Box | null = null): Viewport {
  const all = fitted(frame, size);
  return all.scale >= LEAST ? all : opening(frame, size, home);
}

/** In the middle, large enough to read. */
function middled(box: Box, size: Size): Viewport {
  return {
    x: size.width / 2 - (box.x + box.width / 2) * LEGIBLE,
    y: size.height / 2 - (box.y + box.height / 2) * LEGIBLE,
    scale: LEGIBLE,
  };
}

/** The box in sight and large enough to read. */
export function closeUp(view: Viewport, box: Box, size: Size): Viewport {
  return view.scale >= LEGIBLE ? revealed(view, box, size) : middled(box, size);
}

/** By a factor; the point under (x, y) of the window stays where it is. */
export function zoomed(view: Viewport, factor: number, x: number, y: number): Viewport {
  const scale = Math.min(Math.max(view.scale * factor, LEAST), MOST);
  const by = scale / view.scale;
  return { x: x - (x - view.x) * by, y: y - (y - view.y) * by, scale };
}

/** Moved no more than needed to bring the box in sight. */
export function revealed(view: Viewport, box: Box, size: Size): Viewport {
  const left = view.x + box.x * view.scale;
  const top = view.y + box.y * view.scale;
  return {
    x: view.x + shift(left, box.width * view.scale, size.width),
    y: view.y + shift(top, box.height * view.scale, size.height),
    scale: view.scale,
  };
}

function shift(start: number, length: number, room: number): number {
  if (start < MARGIN) return MARGIN - start;
  const over = start + length + MARGIN - room;
  // What is larger than the room shows its beginning.
  return over > 0 ? -Math.min(over, start - MARGIN) : 0;
}
