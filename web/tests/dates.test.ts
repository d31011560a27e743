import { describe, expect, it } from "vitest";
import { dayBegins, dayEnds, dayIn, dayOf } from "../src/ui/dates";

describe("days as moments", () => {
  it("begin at midnight here, and end at the next one", () => {
    expect(dayBegins("2026-03-31")).toBe(new Date(2026, 2, 31).toISOString());
    expect(dayEnds("2026-03-31")).toBe(new Date(2026, 3, 1).toISOString());
    expect(dayEnds("2026-12-31")).toBe(new Date(2027, 0, 1).toISOString());
  });

  it("are nothing where they are none", () => {
    const days = ["", "today", "2026-3-1", "0001-01-01", "2026-03-31T00:00", "2026-02-31"];
    for (const odd of [null, ...days, "2026-13-01", "2026-01-00"]) {
      expect(dayBegins(odd)).toBeNull();
      expect(dayEnds(odd)).toBeNull();
      expect(dayIn(odd)).toBe("");
    }
  });

  it("end before the years with five digits begin", () => {
    expect(dayEnds("9999-12-31")).toBeNull();
    expect(dayIn("9999-12-31")).toBe("");
    expect(dayEnds("9999-12-29")).toMatch(/^9999-12-/);
    expect(dayIn("2026-03-31")).toBe("2026-03-31");
  });

  it("are written as inputs read them", () => {
    expect(dayOf(new Date(2026, 0, 5, 23, 59))).toBe("2026-01-05");
  });
});
