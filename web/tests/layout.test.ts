import { describe, expect, test } from "vitest";
import { type Box, curve, frameOf, isReadable } from "../src/views/jobs/geometry";
import {
  apart,
  COLUMN_GAP,
  inColumns,
  type LayoutNode,
  ROW_GAP,
  wayOf,
} from "../src/views/jobs/layout";

function node(id: string, ...from: string[]): LayoutNode {
  return { id, from, width: 200, height: 60 };
}

function boxesOf(nodes: readonly LayoutNode[]): Box[] {
  return inColumns(nodes).boxes;
}

function byId(boxes: Box[]): Map<string, Box> {
  return new Map(boxes.map((box) => [box.id, box]));
}

function overlaps(a: Box, b: Box): boolean {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

function crossings(nodes: LayoutNode[], boxes: Map<string, Box>): number {
  const links = nodes.flatMap(({ id, from }) =>
    from.map((source) => [boxes.get(source) as Box, boxes.get(id) as Box] as const),
  );
  let found = 0;
  links.forEach(([a, b], at) => {
    for (const [c, d] of links.slice(at + 1)) {
      if (a.x === c.x && b.x === d.x && (a.y - c.y) * (b.y - d.y) < 0) found += 1;
    }
  });
  return found;
}

describe("in columns", () => {
  test("a node stands to the right of all that feed it", () => {
    const nodes = [node("c", "a", "b"), node("a"), node("b", "a"), node("d", "c", "a")];
    const boxes = byId(boxesOf(nodes));
    for (const { id, from } of nodes) {
      for (const source of from) {
        const end = (boxes.get(source) as Box).x + (boxes.get(source) as Box).width;
        expect((boxes.get(id) as Box).x).toBeGreaterThanOrEqual(end + COLUMN_GAP);
      }
    }
  });

  test("a beginning stands beside the first that takes it", () => {
    const boxes = byId(boxesOf([node("a"), node("b", "a"), node("x"), node("c", "b", "x")]));
    expect(boxes.get("x")?.x).toBe(boxes.get("b")?.x);
  });

  test("a chain is a straight line", () => {
    const boxes = boxesOf([node("a"), node("b", "a"), node("c", "b")]);
    expect(new Set(boxes.map((box) => box.y)).size).toBe(1);
  });

  test("two chains given crosswise do not cross", () => {
    const nodes = [
      node("a1"),
      node("b1"),
      node("b2", "b1"),
      node("a2", "a1"),
      node("a3", "a2"),
      node("b3", "b2"),
    ];
    expect(crossings(nodes, byId(boxesOf(nodes)))).toBe(0);
  });

  test("nothing overlaps, whatever the graph", () => {
    let seed = 7;
    const random = () => {
      seed = (seed * 16807) % 2147483647;
      return seed / 2147483647;
    };
    const nodes = Array.from({ length: 120 }, (_, at) => ({
      ...node(
        String(at),
        ...Array.from({ length: at === 0 ? 0 : Math.floor(random() * 4) }, () =>
          String(Math.floor(random() * at)),
        ),
      ),
      height: 40 + Math.floor(random() * 100),
    }));
    const boxes = boxesOf(nodes);
    expect(boxes).toHaveLength(nodes.length);
    boxes.forEach((box, at) => {
      for (const other of boxes.slice(at + 1)) expect(overlaps(box, other)).toBe(false);
    });
  });

  test("a link that passes a column goes around what stands there", () => {
    const nodes = [node("a"), node("b", "a"), node("c", "a", "b")];
    const { boxes, ways } = inColumns(nodes);
    const b = byId(boxes).get("b") as Box;
    const way = ways.get(wayOf("a", "c")) ?? [];
    expect(way).toHaveLength(2);
    for (const { y } of way) expect(y < b.y || y > b.y + b.height).toBe(true);
    expect(ways.size).toBe(1);
  });

  test("circles, links to itself and to nothing do no harm", () => {
    const boxes = boxesOf([node("a", "b"), node("b", "a"), node("c", "c", "gone"), node("d", "b")]);
    expect(boxes.map((box) => box.id)).toEqual(["a", "b", "c", "d"]);
    for (const { x, y } of boxes) expect(Number.isFinite(x) && Number.isFinite(y)).toBe(true);
  });

  test("no nodes are no boxes", () => {
    expect(boxesOf([])).toEqual([]);
  });

  test.each([
    ["a chain", (at: number) => (at === 0 ? [] : [String(at - 1)])],
    ["all from one", (at: number) => (at === 0 ? [] : ["0"])],
    ["many links", (at: number) => [1, 2, 3, 7, 20].filter((d) => d <= at).map((d) => `${at - d}`)],
  ])("500 nodes are placed at once: %s", (_, from) => {
    const nodes = Array.from({ length: 500 }, (_, at) => node(String(at), ...from(at)));
    inColumns(nodes);
    const times = Array.from({ length: 5 }, () => {
      const start = performance.now();
      inColumns(nodes);
      return performance.now() - start;
    });
    expect(Math.min(...times)).toBeLessThan(50);
  });

  test("20,000 nodes in a chain need no stack", () => {
    const nodes = Array.from({ length: 20_000 }, (_, at) =>
      node(String(at), ...(at === 0 ? [] : [String(at - 1)])),
    );
    expect(boxesOf(nodes)).toHaveLength(20_000);
  });
});

describe("apart", () => {
  test("what has room stays", () => {
    expect(apart([0, 200], [60, 60])).toEqual([0, 200]);
  });

  test("what has none moves by the same on both sides", () => {
    const tops = apart([100, 100], [60, 60]) as [number, number];
    expect(tops[1] - tops[0]).toBeCloseTo(60 + ROW_GAP);
    expect((tops[0] + tops[1]) / 2).toBeCloseTo(100);
  });
});

describe("the editor's places", () => {
  const box = (id: string, x: number, y: number): Box => ({ id, x, y, width: 200, height: 100 });

  test("are used where nodes stand side by side", () => {
    expect(isReadable([box("a", 0, 0), box("b", 220, 0), box("c", 0, 90)])).toBe(true);
  });

  test("are not where nodes lie on each other", () => {
    expect(isReadable([box("a", 0, 0), box("b", 400, 0), box("c", 20, 10)])).toBe(false);
  });
});

test("the frame holds all", () => {
  const boxes = [
    { id: "a", x: -10, y: 5, width: 20, height: 10 },
    { id: "b", x: 50, y: -5, width: 20, height: 10 },
  ];
  expect(frameOf(boxes)).toEqual({ x: -10, y: -5, width: 80, height: 20 });
  expect(frameOf([]).width).toBe(1);
});

test("a curve goes from side to side", () => {
  const from = { id: "a", x: 0, y: 0, width: 100, height: 40 };
  const to = { id: "b", x: 200, y: 100, width: 100, height: 40 };
  expect(curve(from, to)).toBe("M100 20C150 20 150 120 200 120");
  expect(curve(from, to, 0.5, [{ x: 140, y: 60 }])).toBe(
    "M100 20C120 20 120 60 140 60C170 60 170 120 200 120",
  );
});
