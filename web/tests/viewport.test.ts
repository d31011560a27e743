import { describe, expect, test } from "vitest";
import {
  closeUp,
  fitted,
  LEAST,
  LEGIBLE,
  MOST,
  opening,
  overview,
  revealed,
  zoomed,
} from "../src/views/jobs/viewport";

const size = { width: 800, height: 400 };

describe("fitted", () => {
  test("a large drawing is made small, and stands in the middle", () => {
    const view = fitted({ x: 100, y: -50, width: 3000, height: 500 }, size);
    expect(view.scale).toBeLessThan(0.3);
    expect(view.x + 100 * view.scale).toBeCloseTo(28);
    expect(view.x + 3100 * view.scale).toBeCloseTo(800 - 28);
    expect(view.y + 200 * view.scale).toBeCloseTo(200);
  });

  test("a small one is not blown up", () => {
    expect(fitted({ x: 0, y: 0, width: 10, height: 10 }, size).scale).toBe(1);
  });

  test("all of a long one is there", () => {
    const view = fitted({ x: 0, y: 0, width: 40_000, height: 100 }, size);
    expect(view.x).toBeCloseTo(28);
    expect(view.x + 40_000 * view.scale).toBeCloseTo(800 - 28);
  });
});

describe("zoomed", () => {
  test("what is under the pointer stays", () => {
    const before = { x: 30, y: 40, scale: 0.5 };
    const after = zoomed(before, 1.7, 300, 200);
    const point = (300 - before.x) / before.scale;
    expect(after.x + point * after.scale).toBeCloseTo(300);
  });

  test("there is an end to it, in both directions", () => {
    const view = { x: 0, y: 0, scale: 1 };
    expect(zoomed(view, 1e9, 5, 5).scale).toBe(MOST);
    expect(zoomed(view, 1e-9, 5, 5).scale).toBe(LEAST);
  });
});

describe("revealed", () => {
  const view = { x: 0, y: 0, scale: 1 };
  const box = (x: number, y: number, width = 100) => ({ id: "a", x, y, width, height: 50 });

  test.each([
    ["what is in sight does not move", box(100, 100), [0, 0]],
    ["from the right", box(900, 100), [-228, 0]],
    ["from the left", box(-60, 100), [88, 0]],
    ["from below", box(100, 390), [0, -68]],
    ["of what is too wide the beginning is shown", box(50, 100, 2000), [-22, 0]],
  ])("%s", (_, one, [x, y]) => {
    expect(revealed(view, one, size)).toEqual({ x, y, scale: 1 });
  });
});

describe("overview", () => {
  test("is all of it while that can be seen", () => {
    const frame = { x: 0, y: 0, width: 10_000, height: 100 };
    expect(overview(frame, size)).toEqual(fitted(frame, size));
  });

  test("is no line as thin as a hair", () => {
    const frame = { x: 0, y: 0, width: 400_000, height: 100 };
    expect(overview(frame, size)).toEqual(opening(frame, size));
  });
});

describe("a close look", () => {
  const box = { id: "a", x: 5_000, y: 300, width: 200, height: 80 };

  test("makes what is too small large enough, in the middle", () => {
    const view = closeUp({ x: 10, y: 10, scale: 0.1 }, box, size);
    expect(view.scale).toBe(LEGIBLE);
    expect(view.x + 5_100 * view.scale).toBeCloseTo(400);
    expect(view.y + 340 * view.scale).toBeCloseTo(200);
  });

  test("leaves the scale where it can be read", () => {
    const view = { x: 0, y: 0, scale: 1 };
    expect(closeUp(view, box, size)).toEqual(revealed(view, box, size));
  });
});

describe("what is seen first", () => {
  const frame = { x: 10, y: 0, width: 2000, height: 300 };

  test("is all of it where there is room", () => {
    expect(opening(frame, size)).toEqual(fitted(frame, size));
  });

  test("is what matters of one that is too large to be made out", () => {
    const long = { x: 0, y: 0, width: 300_000, height: 100 };
    const home = { id: "a", x: 150_000, y: 0, width: 200, height: 100 };
    const view = opening(long, size, home);
    expect(view.scale).toBe(LEGIBLE);
    expect(view.x + 150_100 * view.scale).toBeCloseTo(400);
    expect(opening(long, size).x).toBeCloseTo(28);
    // There is nothing before the beginning.
    expect(opening(long, size, { ...home, x: 0 }).x).toBeCloseTo(28);
  });

  test("is the beginning on a phone, large enough to read", () => {
    const view = opening(frame, { width: 360, height: 400 });
    expect(view.scale).toBeGreaterThan(0.5);
    expect(view.x + frame.x * view.scale).toBeCloseTo(28);
  });
});
