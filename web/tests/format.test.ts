import { describe, expect, it } from "vitest";
import { bytes, duration, money, percent, when } from "../src/ui/format";

describe("figures for people", () => {
  it.each([
    [0, "0 s"],
    [0.42, "0.42 s"],
    [7.25, "7.3 s"],
    [0.004, "0 s"],
    [0.996, "1.0 s"],
    [9.94, "9.9 s"],
    [9.97, "10 s"],
    [59.6, "1 min"],
    [200, "3 min 20 s"],
    [3599.7, "1 h"],
    [7199, "2 h"],
    [7500, "2 h 5 min"],
    [86_399, "1 d"],
    [90_000, "1 d 1 h"],
    [172_799, "2 d"],
    [Number.NaN, "–"],
  ])("a duration of %s is %s", (seconds, text) => {
    expect(duration(seconds)).toBe(text);
  });

  it.each([
    [999, "999 B"],
    [1500, "1.5 kB"],
    [999_600, "1.0 MB"],
    [2_500_000_000_000, "2.5 TB"],
  ])("%s bytes are %s", (value, text) => {
    expect(bytes(value)).toBe(text);
  });

  it("never says that something is done before it is", () => {
    expect(percent(0.999)).toBe("99%");
  });

  it("shows small costs", () => {
    expect(money(0.00012)).toBe("$0.00012");
    expect(money(0)).toBe("$0");
  });

  it("says the year where it is another one", () => {
    const now = Date.parse("2026-11-16T12:00:00Z");
    expect(when("2033-11-14T06:40:00Z", now)).toContain("2033");
    expect(when("2026-11-16T11:59:58Z", now)).toBe("just now");
    expect(when("2026-11-16T11:55:00Z", now)).toBe("5 min ago");
  });
});
