import { describe, expect, it } from "vitest";
import { FIT, moved, NEAREST, percentOf, scaleOfPixels, zoomAt } from "../src/views/gallery/zoom";

describe("zoomAt", () => {
  it("keeps the place under the pointer where it is", () => {
    const at = { x: 0.25, y: -0.1 };
    const near = zoomAt(FIT, 4, at);
    // Where the picture's point that was at `at` is now: moved plus scaled.
    expect(near.x + at.x * near.scale).toBeCloseTo(at.x);
    expect(near.y + at.y * near.scale).toBeCloseTo(at.y);
  });

  it("never leaves the picture, nor goes too near", () => {
    expect(zoomAt({ scale: 4, x: 1.5, y: -1.5 }, 0.01, { x: 0.5, y: 0.5 })).toEqual(FIT);
    expect(zoomAt(FIT, 1e9, { x: 0, y: 0 }).scale).toBe(NEAREST);
  });
});

describe("moved", () => {
  it("goes to the edge at most", () => {
    expect(moved({ scale: 3, x: 0, y: 0 }, 9, -9)).toEqual({ scale: 3, x: 1, y: -1 });
    expect(moved(FIT, 0.3, 0.3)).toEqual(FIT);
  });
});

describe("sizes", () => {
  const stage = { width: 800, height: 600 };

  it("know when pixels are pixels", () => {
    expect(scaleOfPixels({ width: 1600, height: 600 }, stage, 1, true)).toBe(2);
    expect(scaleOfPixels({ width: 1600, height: 600 }, stage, 2, true)).toBe(1);
    expect(scaleOfPixels({ width: 100, height: 100 }, stage, 1, true)).toBe(1);
    expect(scaleOfPixels({ width: 0, height: 0 }, stage, 1, true)).toBe(1);
  });

  it("say how near one is", () => {
    const large = { width: 1600, height: 600 };
    expect(percentOf(FIT, large, stage, 1, true)).toBe(50);
    expect(percentOf({ ...FIT, scale: 2 }, large, stage, 1, true)).toBe(100);
  });

  it("let small pictures grow only where they should", () => {
    const small = { width: 400, height: 300 };
    expect(percentOf(FIT, small, stage, 1, true)).toBe(200);
    expect(percentOf(FIT, small, stage, 1, false)).toBe(100);
    expect(scaleOfPixels(small, stage, 1, false)).toBe(1);
  });
});
