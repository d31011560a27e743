/** Boxes and the curves between them. Pure. */

export interface Box {
  id: string;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Point {
  x: number;
  y: number;
}

/** How much of the smaller one may lie under the other before a drawing is of no use. */
const MOST_COVERED = 0.35;

/**
 * Whether the editor's places can be used: nodes inside a subgraph stand all where the subgraph
 * does, on top of each other.
 */
export function isReadable(boxes: readonly Box[]): boolean {
  const sorted = [...boxes].sort((a, b) => a.x - b.x);
  for (let at = 0; at < sorted.length; at++) {
    const one = sorted[at] as Box;
    for (let next = at + 1; next < sorted.length; next++) {
      const other = sorted[next] as Box;
      if (other.x >= one.x + one.width) break;
      const wide = Math.min(one.x + one.width, other.x + other.width) - other.x;
      const tall = Math.min(one.y + one.height, other.y + other.height) - Math.max(one.y, other.y);
      const least = Math.min(one.width * one.height, other.width * other.height);
      if (tall > 0 && wide * tall > least * MOST_COVERED) return false;
    }
  }
  return true;
}

export interface Frame {
  x: number;
  y: number;
  width: number;
  height: number;
}

export function frameOf(boxes: readonly Box[]): Frame {
  if (boxes.length === 0) return { x: 0, y: 0, width: 1, height: 1 };
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const { x, y, width, height } of boxes) {
    left = Math.min(left, x);
    top = Math.min(top, y);
    right = Math.max(right, x + width);
    bottom = Math.max(bottom, y + height);
  }
  return { x: left, y: top, width: right - left, height: bottom - top };
}

/** A curve from the right side of one node to the left side of another, as a path of SVG. */
export function curve(from: Box, to: Box, share = 0.5, through: readonly Point[] = []): string {
  const start = { x: from.x + from.width, y: from.y + Math.min(from.height / 2, 36) };
  const end = { x: to.x, y: to.y + Math.min(to.height, 72) * share };
  let path = `M${short(start.x)} ${short(start.y)}`;
  let last = start;
  for (const next of [...through, end]) {
    const bend = Math.max(16, Math.abs(next.x - last.x) / 2);
    const points = [last.x + bend, last.y, next.x - bend, next.y, next.x, next.y];
    path += `C${points.map(short).join(" ")}`;
    last = next;
  }
  return path;
}

function short(value: number): number {
  return Math.round(value * 10) / 10;
}
