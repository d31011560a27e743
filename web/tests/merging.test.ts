import { describe, expect, it } from "vitest";
import { appendPage, mergeFirstPage, mergePage, type Paged, placeOf } from "../src/live/merging";

const idOf = (each: string) => each;
const paged = (items: string[], next: string | null): Paged<string> => ({ items, next });

describe("mergeFirstPage", () => {
  it("puts newer ones on top and keeps the rest with its cursor", () => {
    const merged = mergeFirstPage(
      paged(["4", "3", "2", "1"], "n1"),
      paged(["6", "5", "4"], "n4"),
      idOf,
    );
    expect(merged).toEqual({
      items: ["6", "5", "4", "3", "2", "1"],
      next: "n1",
      fresh: ["6", "5"],
    });
  });

  it("lets go of what the page should have and has not", () => {
    const merged = mergeFirstPage(paged(["4", "3", "2", "1"], null), paged(["4", "2"], "n2"), idOf);
    expect(merged).toEqual({ items: ["4", "2", "1"], next: null, fresh: [] });
  });

  it("takes the whole list from a page that has no next one", () => {
    const merged = mergeFirstPage(paged(["4", "3"], "n3"), paged(["5"], null), idOf);
    expect(merged).toEqual({ items: ["5"], next: null, fresh: ["5"] });
  });

  it("begins anew where the page does not reach what there is", () => {
    const merged = mergeFirstPage(paged(["2", "1"], null), paged(["9", "8"], "n8"), idOf);
    expect(merged).toEqual({ items: ["9", "8"], next: "n8", fresh: ["9", "8"] });
  });

  it("takes the cursor of a page that has all that there was and more", () => {
    const merged = mergeFirstPage(paged(["5", "4"], "n4"), paged(["5", "4", "3"], "n3"), idOf);
    expect(merged).toEqual({ items: ["5", "4", "3"], next: "n3", fresh: [] });
  });

  it("does not call older ones new that fit the filter only now", () => {
    const merged = mergeFirstPage(paged(["5", "3"], null), paged(["6", "5", "4", "3"], "n3"), idOf);
    expect(merged.fresh).toEqual(["6"]);
    expect(merged.items).toEqual(["6", "5", "4", "3"]);
  });

  it("fills an empty list", () => {
    expect(mergeFirstPage(paged([], null), paged(["1"], null), idOf).fresh).toEqual(["1"]);
  });

  it("empties a list", () => {
    expect(mergeFirstPage(paged(["1"], null), paged([], null), idOf).items).toEqual([]);
  });
});

describe("appendPage", () => {
  it("has nothing twice", () => {
    const joined = appendPage(paged(["5", "4"], "n4"), paged(["4", "3"], null), idOf);
    expect(joined).toEqual({ items: ["5", "4", "3"], next: null });
  });
});

describe("mergePage", () => {
  const old = paged(["9", "8", "7", "6", "5", "4"], "n4");

  it("is right for what it spans, and leaves the rest", () => {
    expect(mergePage(old, "8", paged(["6"], "n6"), idOf)).toEqual(
      paged(["9", "8", "6", "5", "4"], "n4"),
    );
  });

  it("goes on behind a page that reaches beyond the list", () => {
    expect(mergePage(old, "8", paged(["5", "3", "2"], "n2"), idOf)).toEqual(
      paged(["9", "8", "5", "3", "2"], "n2"),
    );
  });

  it("ends the list where the page is the last one", () => {
    expect(mergePage(old, "8", paged([], null), idOf)).toEqual(paged(["9", "8"], null));
  });
});

describe("placeOf", () => {
  it.each([
    ["9", 0],
    ["7", 1],
    ["6", 2],
    ["5", 2],
    ["0", 3],
  ])("finds where %s is, or would be", (id, place) => {
    expect(placeOf(["8", "7", "5"], id, idOf)).toBe(place);
  });
});
