/**
 * Where the nodes of a graph stand: as in the editor where all are placed there, else in columns,
 * each node to the right of all that feed it. Pure, and linear but for the sorting of columns.
 */

export interface LayoutNode {
  id: string;
  /** The nodes that feed it. Those that are not there are left out. */
  from: readonly string[];
  width: number;
  height: number;
}

export interface Box {
  id: string;
  x: number;
  y: number;
  width: number;
  height: number;
}

export const COLUMN_GAP = 72;
export const ROW_GAP = 22;
const SWEEPS = 8;

interface Links {
  before: number[][];
  after: number[][];
}

/** In columns by the longest way from a beginning, ordered so that few links cross. */
export function inColumns(nodes: readonly LayoutNode[]): Box[] {
  const links = linksOf(nodes);
  const columns = orderedColumns(levelsOf(links), links);
  return placed(nodes, columns, links);
}

function linksOf(nodes: readonly LayoutNode[]): Links {
  const at = new Map(nodes.map((node, index) => [node.id, index]));
  const before: number[][] = nodes.map(() => []);
  const after: number[][] = nodes.map(() => []);
  nodes.forEach((node, index) => {
    for (const id of new Set(node.from)) {
      const source = at.get(id);
      if (source === undefined || source === index) continue;
      before[index]?.push(source);
      after[source]?.push(index);
    }
  });
  return { before, after };
}

/** The nodes each after all that feed it; those in a circle come last. */
function inOrder({ before, after }: Links): number[] {
  const waits = before.map((each) => each.length);
  const order: number[] = [];
  waits.forEach((count, index) => {
    if (count === 0) order.push(index);
  });
  for (let next = 0; next < order.length; next++) {
    for (const target of after[order[next] as number] ?? []) {
      const left = (waits[target] ?? 0) - 1;
      waits[target] = left;
      if (left === 0) order.push(target);
    }
  }
  const isThere = new Set(order);
  before.forEach((_, index) => {
    if (!isThere.has(index)) order.push(index);
  });
  return order;
}

function levelsOf(links: Links): number[] {
  const level = links.before.map(() => 0);
  const order = inOrder(links);
  const rank = new Map(order.map((index, place) => [index, place]));
  for (const index of order) {
    for (const source of links.before[index] ?? []) {
      if ((rank.get(source) ?? 0) > (rank.get(index) ?? 0)) continue; // part of a circle
      level[index] = Math.max(level[index] ?? 0, (level[source] ?? 0) + 1);
    }
  }
  // What nothing feeds stands beside the first that takes it, not far away at the left.
  for (const index of order) {
    const targets = links.after[index] ?? [];
    if ((links.before[index]?.length ?? 0) > 0 || targets.length === 0) continue;
    const nearest = Math.min(...targets.map((target) => level[target] ?? 0));
    level[index] = Math.max(0, nearest - 1);
  }
  return level;
}

function orderedColumns(level: readonly number[], links: Links): number[][] {
  const columns: number[][] = [];
  level.forEach((column, index) => {
    columns[column] ??= [];
    columns[column]?.push(index);
  });
  // Where all nodes of a level have moved to the right it is empty.
  const filled = Array.from(columns, (each) => each ?? []).filter((each) => each.length > 0);
  const place = level.map(() => 0);
  const note = (column: number[]) => {
    column.forEach((index, at) => {
      place[index] = at / column.length;
    });
  };
  filled.forEach(note);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const forth = sweep % 2 === 0;
    const neighbours = forth ? links.before : links.after;
    for (const column of forth ? filled : [...filled].reverse()) {
      const centre = new Map(
        column.map((index) => [index, mean(neighbours[index] ?? [], place) ?? place[index] ?? 0]),
      );
      column.sort((a, b) => (centre.get(a) ?? 0) - (centre.get(b) ?? 0));
      note(column);
    }
  }
  return filled;
}

function mean(indices: readonly number[], of: readonly number[]): number | null {
  if (indices.length === 0) return null;
  let sum = 0;
  for (const index of indices) sum += of[index] ?? 0;
  return sum / indices.length;
}

/** Every node as near to the middle of its neighbours as its column allows. */
function placed(nodes: readonly LayoutNode[], columns: number[][], links: Links): Box[] {
  const centre = nodes.map(() => 0);
  const height = (index: number) => nodes[index]?.height ?? 0;
  for (const column of columns) {
    let y = 0;
    const all = column.reduce((sum, index) => sum + height(index) + ROW_GAP, -ROW_GAP);
    for (const index of column) {
      centre[index] = y + height(index) / 2 - all / 2;
      y += height(index) + ROW_GAP;
    }
  }
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const forth = sweep % 2 === 0;
    for (const column of forth ? columns : [...columns].reverse()) {
      const wanted = column.map((index) => {
        const near = (forth ? links.before : links.after)[index] ?? [];
        return (mean(near, centre) ?? centre[index] ?? 0) - height(index) / 2;
      });
      const tops = apart(wanted, column.map(height));
      column.forEach((index, at) => {
        centre[index] = (tops[at] ?? 0) + height(index) / 2;
      });
    }
  }
  const boxes: Box[] = [];
  let x = 0;
  for (const column of columns) {
    const width = column.reduce((most, index) => Math.max(most, nodes[index]?.width ?? 0), 0);
    for (const index of column) {
      const node = nodes[index];
      if (node === undefined) continue;
      const { id, height: tall, width: wide } = node;
      boxes[index] = { id, x, y: (centre[index] ?? 0) - tall / 2, width: wide, height: tall };
    }
    x += width + COLUMN_GAP;
  }
  return boxes;
}

/**
 * The tops nearest to those wanted, by least squares, that keep the order and the gap: neighbours
 * that would overlap move together.
 */
export function apart(wanted: readonly number[], heights: readonly number[]): number[] {
  const offsets: number[] = [];
  let offset = 0;
  for (const height of heights) {
    offsets.push(offset);
    offset += height + ROW_GAP;
  }
  const blocks: { sum: number; count: number }[] = [];
  wanted.forEach((top, at) => {
    let block = { sum: top - (offsets[at] ?? 0), count: 1 };
    for (;;) {
      const last = blocks.at(-1);
      if (last === undefined || last.sum / last.count <= block.sum / block.count) break;
      blocks.pop();
      block = { sum: block.sum + last.sum, count: block.count + last.count };
    }
    blocks.push(block);
  });
  const tops: number[] = [];
  for (const { sum, count } of blocks) {
    for (let each = 0; each < count; each++) {
      tops.push(sum / count + (offsets[tops.length] ?? 0));
    }
  }
  return tops;
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
export function curve(from: Box, to: Box, share = 0.5): string {
  const [x1, y1] = [from.x + from.width, from.y + Math.min(from.height / 2, 36)];
  const [x2, y2] = [to.x, to.y + Math.min(to.height, 72) * share];
  const bend = Math.max(32, Math.abs(x2 - x1) / 2);
  const n = (value: number) => Math.round(value * 10) / 10;
  return `M${n(x1)} ${n(y1)}C${n(x1 + bend)} ${n(y1)} ${n(x2 - bend)} ${n(y2)} ${n(x2)} ${n(y2)}`;
}
