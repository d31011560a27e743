import { describe, expect, it } from "vitest";
import { between, cellsIn, GAP, rowsOf } from "../src/views/gallery/grid_layout";

describe("cellsIn", () => {
  it.each([320, 362, 700, 1268])("fills a width of %i", (width) => {
    const { columns, side } = cellsIn(width);
    expect(columns * side + (columns - 1) * GAP).toBeCloseTo(width);
    expect(side).toBeGreaterThan(90);
    expect(side).toBeLessThan(260);
  });

  it("has three beside each other on a phone", () => {
    expect(cellsIn(362).columns).toBe(3);
  });
});

describe("rowsOf", () => {
  it("has every item once, in order", () => {
    expect(rowsOf([1, 2, 3, 4, 5], 2)).toEqual([[1, 2], [3, 4], [5]]);
    expect(rowsOf([], 3)).toEqual([]);
  });
});

describe("between", () => {
  it("goes both ways", () => {
    expect(between(["a", "b", "c", "d"], "b", "d")).toEqual(["b", "c", "d"]);
    expect(between(["a", "b", "c", "d"], "d", "b")).toEqual(["b", "c", "d"]);
  });

  it("is one where there is no beginning", () => {
    expect(between(["a", "b"], null, "b")).toEqual(["b"]);
    expect(between(["a", "b"], "gone", "b")).toEqual(["b"]);
  });
});
