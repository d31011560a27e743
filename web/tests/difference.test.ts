import { describe, expect, it } from "vitest";
import { commonSize, difference } from "../src/views/gallery/difference";

const pixels = (...values: number[]) => new Uint8ClampedArray(values);

describe("difference", () => {
  it("is black where nothing differs", () => {
    const same = pixels(10, 20, 30, 255);
    expect(difference(same, same, 10)).toEqual({
      pixels: pixels(0, 0, 0, 255),
      share: 0,
      most: 0,
      mean: 0,
    });
  });

  it("counts and strengthens what differs", () => {
    const found = difference(
      pixels(10, 20, 30, 255, 0, 0, 0, 255),
      pixels(13, 20, 24, 255, 0, 0, 0, 255),
      10,
    );
    expect([...found.pixels]).toEqual([30, 0, 60, 255, 0, 0, 0, 255]);
    expect(found).toMatchObject({ share: 0.5, most: 6, mean: 1.5 });
  });

  it("does not count colours that are clear in both, and counts what is clear in one", () => {
    expect(difference(pixels(9, 9, 9, 0), pixels(1, 2, 3, 0), 1).share).toBe(0);
    expect(difference(pixels(9, 9, 9, 0), pixels(9, 9, 9, 200), 1).most).toBe(200);
  });
});

describe("commonSize", () => {
  it("is that of the larger, within bounds", () => {
    const small = { width: 10, height: 10 };
    expect(commonSize(small, { width: 40, height: 20 }, 1e6)).toEqual({ width: 40, height: 20 });
    expect(commonSize({ width: 40, height: 20 }, small, 200)).toEqual({ width: 20, height: 10 });
  });
});
