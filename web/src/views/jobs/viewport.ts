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
  const scale = clamp(Math.min(across, down, 1));
  return {
    x: size.width / 2 - (frame.x + frame.width / 2) * scale,
    y: size.height / 2 - (frame.y + frame.height / 2) * scale,
    scale,
  };
}

const NARROW = 560;
const LEGIBLE = 0.62;

/** What is seen first: all of it, or on a phone the beginning where all is too small to read. */
export function opening(frame: Frame, size: Size): Viewport {
  const all = fitted(frame, size);
  if (size.width >= NARROW || all.scale >= LEGIBLE) return all;
  const middle = size.height / 2 - (frame.y + frame.height / 2) * LEGIBLE;
  return { x: MARGIN - frame.x * LEGIBLE, y: middle, scale: LEGIBLE };
}

/** By a factor; the point under (x, y) of the window stays where it is. */
export function zoomed(view: Viewport, factor: number, x: number, y: number): Viewport {
  const scale = clamp(view.scale * factor);
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

function clamp(scale: number): number {
  return Math.min(Math.max(scale, LEAST), MOST);
}
