import { describe, expect, it } from "vitest";
import { OldRows } from "../src/live/old_rows";

const ids = Array.from({ length: 30 }, (_, at) => String(99 - at)); // 99 … 70
const end = (id: string) => ({ id, cursor: `c${id}` });

function marked(): OldRows {
  const rows = new OldRows(10);
  rows.mark("90", "c90");
  rows.mark("80", "c80");
  return rows;
}

describe("OldRows", () => {
  it("wants nothing where no row in sight is old", () => {
    const rows = marked();
    rows.add(ids, ["75"]);
    expect(rows.within(ids, [0, 8])).toBeNull();
  });

  it("begins at the mark above the first old row in sight", () => {
    const rows = marked();
    rows.add(ids, ["85", "75"]);
    expect(rows.within(ids, [12, 18])).toEqual({ after: end("90"), rows: 10 });
    expect(rows.within(ids, [20, 29])).toEqual({ after: end("80"), rows: 11 });
  });

  it("begins at the top where there is no mark above", () => {
    const rows = marked();
    rows.add(ids, ["95"]);
    expect(rows.within(ids, [2, 6])).toEqual({ after: null, rows: 7 });
  });

  it("takes a row that is not there for the one in its place", () => {
    const rows = marked();
    rows.add(["99", "85", "70"], ["90"]);
    expect(rows.within(["99", "85", "70"], [1, 1])).not.toBeNull();
    expect(rows.within(["99", "85", "70"], [2, 2])).toBeNull();
  });

  it("forgets what a page spans, and only that", () => {
    const rows = marked();
    rows.addAll(ids);
    rows.remove(ids, { after: "90", end: end("80"), turn: rows.turn });
    expect(rows.within(ids, [10, 19])).toBeNull();
    expect(rows.within(ids, [10, 20])).not.toBeNull();
    expect(rows.within(ids, [9, 19])).not.toBeNull();
  });

  it("forgets all behind it where the page is the last one", () => {
    const rows = marked();
    rows.addAll(ids);
    rows.remove(ids, { after: "80", end: null, turn: rows.turn });
    expect(rows.within(ids, [20, 29])).toBeNull();
  });

  it("keeps what became old after the page was asked for", () => {
    const rows = marked();
    rows.add(ids, ["85"]);
    const { turn } = rows;
    rows.add(ids, ["85"]);
    rows.remove(ids, { after: null, end: null, turn });
    expect(rows.isEmpty).toBe(false);
  });

  it("gets one more mark where a page ends far behind the last", () => {
    const rows = new OldRows(10);
    rows.remove(ids, { after: null, end: end("85"), turn: 0 });
    rows.remove(ids, { after: null, end: end("82"), turn: 0 }); // near the other
    rows.add(ids, ["75"]);
    expect(rows.within(ids, [24, 24])?.after).toEqual(end("85"));
  });

  it("has no marks behind the end of the list", () => {
    const rows = marked();
    rows.cut("85");
    rows.addAll(ids);
    expect(rows.within(ids, [25, 26])?.after).toEqual(end("90"));
  });
});
