/** Where a job's nodes and links are drawn. Pure. */

import type { Schemas } from "../../api/client";
import { type Box, curve, isReadable } from "./geometry";
import { inColumns, type LayoutNode, type Placement, wayOf } from "./layout";

type FormNode = Schemas["FormNode"];

export interface Drawing {
  boxes: readonly Box[];
  byId: ReadonlyMap<string, Box>;
  /** All links as one path of SVG. */
  links: string;
  /** The links of each node by its id, those that it takes and those that it gives. */
  linksOf: (id: string) => string;
}

const WIDTH = 210;
const HEIGHT = 84;
/** Of nodes that make something to look at: room for a picture. */
const TALL = 196;
/** The editor's sizes are without the title bar, which stands above. */
const TITLE_BAR = 30;
const LEAST_WIDTH = 150;

export function drawingOf(nodes: readonly FormNode[]): Drawing {
  const placed = fromEditor(nodes);
  const { boxes, ways }: Placement =
    placed === null ? inColumns(nodes.map(toPlace)) : { boxes: placed, ways: new Map() };
  const byId = new Map(boxes.map((box) => [box.id, box]));
  const curves: { from: string; to: string; path: string }[] = [];
  for (const { node_id, links } of nodes) {
    const to = byId.get(node_id);
    if (to === undefined) continue;
    links.forEach((link, at) => {
      const from = byId.get(link.node_id);
      if (from === undefined) return;
      const share = (at + 1) / (links.length + 1);
      const path = curve(from, to, share, ways.get(wayOf(link.node_id, node_id)));
      curves.push({ from: link.node_id, to: node_id, path });
    });
  }
  return {
    boxes,
    byId,
    links: curves.map((each) => each.path).join(""),
    linksOf: (id) =>
      curves
        .filter((each) => each.from === id || each.to === id)
        .map((each) => each.path)
        .join(""),
  };
}

function toPlace(node: FormNode): LayoutNode {
  return {
    id: node.node_id,
    from: node.links.map((link) => link.node_id),
    width: WIDTH,
    height: node.output_node ? TALL : HEIGHT,
  };
}

/** Null where the workflow does not say where they stand, or where they lie on each other. */
function fromEditor(nodes: readonly FormNode[]): Box[] | null {
  const boxes: Box[] = [];
  for (const { node_id, position } of nodes) {
    if (position === null) return null;
    const { x, y, width, height } = position;
    if (![x, y, width, height].every((each) => Math.abs(each) < 1e7)) return null;
    boxes.push({
      id: node_id,
      x,
      y: y - TITLE_BAR,
      width: Math.max(width, LEAST_WIDTH),
      height: Math.max(height + TITLE_BAR, HEIGHT),
    });
  }
  return boxes.length > 0 && isReadable(boxes) ? boxes : null;
}
