/**
 * Where the nodes of a graph stand: as in the editor where all are placed there, else in columns,
 * each node to the right of all that feed it. Pure, and linear but for the sorting of columns.
 */

import type { Box, Point } from "./geometry";

export interface LayoutNode {
  id: string;
  /** The nodes that feed it. Those that are not there are left out. */
  from: readonly string[];
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

export interface Placement {
  boxes: Box[];
  /** Where links that pass other columns go through, by source and target. */
  ways: ReadonlyMap<string, readonly Point[]>;
}

export function wayOf(from: string, to: string): string {
  return JSON.stringify([from, to]);
}

/** What a link takes of the columns that it passes; more of them would cost more than they help. */
const LANE = 14;
const MOST_LANES = 2_000;

/** In columns by the longest way from a beginning, ordered so that few links cross. */
export function inColumns(nodes: readonly LayoutNode[]): Placement {
  const level = levelsOf(linksOf(nodes));
  const { items, levels, lanes } = withLanes(nodes, level);
  const links = linksOf(items);
  const boxes = placed(items, orderedColumns(levels, links), links);
  const at = new Map(boxes.map((box) => [box.id, box]));
  const ways = new Map<string, Point[]>();
  for (const [way, ids] of lanes) {
    const through = ids.map((id) => at.get(id)).filter((box) => box !== undefined);
    ways.set(
      way,
      through.flatMap(({ x, y, width, height }) => [
        { x, y: y + height / 2 },
        { x: x + width, y: y + height / 2 },
      ]),
    );
  }
  return { boxes: boxes.slice(0, nodes.length), ways };
}

interface Laned {
  items: LayoutNode[];
  levels: number[];
  lanes: Map<string, string[]>;
}

/** Links that pass columns become chains of narrow nodes, so that they do not run behind others. */
function withLanes(nodes: readonly LayoutNode[], level: readonly number[]): Laned {
  const levels = [...level];
  const lanes = new Map<string, string[]>();
  const levelOf = new Map(nodes.map((node, index) => [node.id, level[index] ?? 0]));
  const passed = (from: string, to: string) =>
    Math.max(0, (levelOf.get(to) ?? 0) - (levelOf.get(from) ?? Number.POSITIVE_INFINITY) - 1);
  let sum = 0;
  for (const node of nodes) for (const id of new Set(node.from)) sum += passed(id, node.id);
  if (sum > MOST_LANES) return { items: [...nodes], levels, lanes };
  const added: LayoutNode[] = [];
  const items = nodes.map((node) => {
    const from = [...new Set(node.from)].map((source) => {
      const ids: string[] = [];
      let before = source;
      for (let step = 1; step <= passed(source, node.id); step++) {
        const id = `${wayOf(source, node.id)}${step}`;
        added.push({ id, from: [before], width: 0, height: LANE });
        levels.push((levelOf.get(source) ?? 0) + step);
        ids.push(id);
        before = id;
      }
      if (ids.length > 0) lanes.set(wayOf(source, node.id), ids);
      return before;
    });
    return { ...node, from };
  });
  return { items: [...items, ...added], levels, lanes };
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
      const { id, height: tall } = node;
      const wide = node.width === 0 ? width : node.width;
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
